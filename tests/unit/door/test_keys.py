"""The file of API keys beside an inventory."""

import multiprocessing
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.door.key import Key
from sparkwright.door.keys import api_keys, fleet_keys, keys_path, main

KEY = "sk-0123456789abcdefghij"


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
    assert keys_path(fleet).read_text().startswith(f"owner {key}\n#")
    assert api_keys(tmp_path / "other.yaml") != (key,)


def test_a_dry_run_has_a_key_and_makes_no_file(tmp_path: Path) -> None:
    (key,) = api_keys(tmp_path / "sparks.yaml", record=False)
    assert key.startswith("sk-")
    assert not list(tmp_path.iterdir())


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
        (f"{KEY}+ {KEY}\n", 0o600, "line 1: found no valid name before the key"),
        (f"{'a' * 33} {KEY}\n", 0o600, "line 1: found no valid name before the key"),
        ("sk-" + "a" * 20, 0o600, "line 1: found a key of 4 different characters; expected at"),
        ("abcdefghij" * 3, 0o600, "line 1: found a key with a repeating pattern"),
        (f"a {KEY} chat 2027-01-01 more\n", 0o600, "line 1: found 3 words after the key of a"),
        (f"a {KEY} 2027-02-30\n", 0o600, "line 1: found 2027-02-30, which is no day"),
        (f"a {KEY}\nb {KEY}\n", 0o600, "a.keys: found one key for a and b"),
        (f"a {KEY} chat\n", 0o600, "a.keys: found no key that opens everything"),
        (f"a {KEY} 2020-01-01\n", 0o600, "a.keys: found no key that opens everything, today"),
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


def test_a_line_says_whose_a_key_is_what_it_opens_and_until_when(tmp_path: Path) -> None:
    text = f"owner {KEY}\nann {KEY}1 chat,gateway 2099-12-31\nbob {KEY}2 2099-12-31\n{KEY}3\n"
    path = write(tmp_path / "a.keys", text)
    owner, ann, bob, old = fleet_keys(path, replicas=["chat", "code"])
    assert [owner.opens(place) for place in ("chat", "code", "gateway")] == [True] * 3
    assert [ann.opens(place) for place in ("chat", "code", "gateway")] == [True, False, True]
    assert (ann.places, bob.places) == (("chat", "gateway"), ())
    assert bob.ends == 4102444800  # the midnight after its last day, in UTC
    # A line of before keys had names is known by a part of its sum.
    assert old.name == f"key-{old.digest[:6].lower()}"
    assert api_keys(path) == (KEY, f"{KEY}2", f"{KEY}3")
    with pytest.raises(PlanError, match="line 2: found 'chat' for the key of ann; exp"):
        fleet_keys(path, replicas=["code"])


def test_a_key_for_metrics_opens_these_at_each_door() -> None:
    key = Key("prometheus", KEY, ("metrics",))
    assert key.opens("chat")
    assert key.line("chat") == f"{key.digest} prometheus:9999999999:metrics"
    both = Key("ann", KEY, ("chat", "metrics"))
    assert both.line("chat") == f"{both.digest} ann:9999999999"
    assert both.line("code").endswith(":metrics")


FLEET = """\
sparks: {spark-a: {ssh_hostname: 192.0.2.1}}
replicas: {chat: {recipe: qwen3.6-35b-nvidia, sparks: [spark-a]}}
"""


def test_one_command_makes_replaces_and_removes_a_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet = tmp_path / "sparks.yaml"
    fleet.write_text(FLEET)

    def run(*words: str) -> str:
        assert main(["--inventory", str(fleet), *words]) == 0
        return capsys.readouterr().out.strip()

    owner = run("show")
    ann = run("add", "ann", "--for", "chat", "--until", "2099-12-31")
    assert run("show", "ann") == ann
    with keys_path(fleet).open("a") as file:
        file.write(f"# of a guest\n{KEY}\n")
    listed = run("list")
    assert re.search(r"^ann +chat +2099-12-31$", listed, re.M)
    assert not any(key in listed for key in (owner, ann, KEY))
    new = run("rotate", "owner", "--days", "3")
    assert api_keys(fleet) == (new, owner, KEY)
    days = [key.until for key in fleet_keys(fleet) if key.name == "owner"]
    assert days[0] is None
    assert days[1] is not None
    assert 2 <= (days[1] - datetime.now(UTC).date()).days <= 3
    run("remove", "ann")
    text = keys_path(fleet).read_text()
    assert (ann in text, "# of a guest" in text) == (False, True)
    assert keys_path(fleet).stat().st_mode & 0o777 == 0o600
    # What cannot be leaves the file as it was.
    for words, told in (
        (("add", "a b"), "found 'a b'; expected a name of up to 32"),
        (("add", "bob", "--for", "nowhere"), "found 'nowhere' for the key of bob"),
        (("rotate", "ann"), "found no key of ann; expected one of owner, key-"),
        (("remove", "ann"), "found no key of ann"),
    ):
        assert main(["--inventory", str(fleet), *words]) == 1
        assert told in capsys.readouterr().err
    assert keys_path(fleet).read_text() == text
