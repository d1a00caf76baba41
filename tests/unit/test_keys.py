"""The file of API keys beside an inventory."""

import multiprocessing
import re
from pathlib import Path

import pytest

from deploys.keys import api_keys, keys_path
from deploys.plan.errors import PlanError

KEY = "sk-" + "a" * 20


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path.with_suffix(".yaml")


def test_the_first_use_makes_one_key_that_stays(tmp_path: Path) -> None:
    fleet = tmp_path / "sparks.yaml"
    (key,) = api_keys(fleet)
    assert re.fullmatch(r"sk-[A-Za-z0-9_-]{43}", key)
    assert [file.name for file in tmp_path.iterdir()] == ["sparks.keys"]
    assert keys_path(fleet).stat().st_mode & 0o777 == 0o600
    assert api_keys(fleet) == (key,)
    # For whoever takes it from there with `head -n 1`.
    assert keys_path(fleet).read_text().startswith(f"{key}\n#")
    assert api_keys(tmp_path / "other.yaml") != (key,)


def test_several_runs_at_a_time_make_the_same_key(tmp_path: Path) -> None:
    # A fork of a process with threads, which tests before may have left, can stand still for ever.
    with multiprocessing.get_context("spawn").Pool(8) as pool:
        made = pool.map(api_keys, [tmp_path / "sparks.yaml"] * 32, chunksize=1)
    assert len(set(made)) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["sparks.keys"]


def test_several_keys_in_their_order_with_comments(tmp_path: Path) -> None:
    text = f"# ours\n{KEY}1\n\n  {KEY}2  \r\n# of a guest\n{KEY}1\n"
    assert api_keys(write(tmp_path / "a.keys", text)) == (f"{KEY}1", f"{KEY}2")


def test_what_editors_leave_in_a_file_is_no_part_of_a_key(tmp_path: Path) -> None:
    """Line ends and a byte order mark of Windows, trailing spaces, no last line end."""
    text = f"\ufeff{KEY}1\r\n# ours \r\n{KEY}2 \t\r\n{KEY}1 \r\n\r\n{KEY}3"
    path = write(tmp_path / "a.keys", text)
    assert api_keys(path) == (f"{KEY}1", f"{KEY}2", f"{KEY}3")


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "folder.keys").mkdir(mode=0o700)
    (tmp_path / "dangling.keys").symlink_to("nowhere")
    for name, why in (
        ("folder", "Is a directory"),
        ("dangling", "No such file or directory"),
        ("nowhere/a", "No such file or directory"),
    ):
        with pytest.raises(PlanError) as raised:
            api_keys(tmp_path / f"{name}.yaml")
        assert f"{name}.keys: found a file that cannot be read or made ({why})" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "mode", "told"),
    [
        ("", 0o600, "a.keys: found no key"),
        ("# none\n", 0o600, "a.keys: found no key"),
        (f"# short\n{KEY}\nsk-1234567890123456\n", 0o600, "line 3: found a key of 19 characters"),
        (f"{KEY} {KEY}\n", 0o600, "line 1: found other characters"),
        (f"{KEY}é\n", 0o600, "line 1: found other characters"),
        (f"{KEY}\n", 0o640, "found mode 640, with which others can read it; expected 600"),
    ],
)
def test_bad_files_are_refused_without_showing_a_key(
    tmp_path: Path, text: str, mode: int, told: str
) -> None:
    with pytest.raises(PlanError) as raised:
        api_keys(write(tmp_path / "a.keys", text, mode))
    assert told in str(raised.value)
    assert "sk-1" not in str(raised.value)
    assert KEY not in str(raised.value)
