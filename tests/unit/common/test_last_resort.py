"""The last resort: what a program's end looks like, and where the details go."""

import errno
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.common.last_resort import command, guarded
from sparkwright.door.key import Key
from sparkwright.plan.release.registry_login import RegistryLogin


def raising(error: BaseException) -> Callable[[], int]:
    """Return a main function that ends by an error."""

    def main() -> int:
        raise error

    return main


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of files about errors."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("main", "status", "said"),
    [
        (lambda: None, 0, ""),
        (raising(SystemExit(3)), 3, ""),
        (raising(SystemExit("found x; expected y")), 1, "found x; expected y\n"),
        (raising(PlanError("a: found x", "b: found y")), 1, "a: found x\nb: found y\n"),
        (raising(KeyboardInterrupt()), 130, "\ninterrupted\n"),
        (
            raising(OSError(errno.EACCES, "Permission denied", "/x\x1b")),
            1,
            "/x\N{REPLACEMENT CHARACTER}: cannot be read or written: Permission denied\n",
        ),
    ],
)
def test_ends_that_are_no_fault(
    main: Callable[[], int | None],
    status: int,
    said: str,
    state: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert guarded(main) == status
    assert capfd.readouterr().err == said
    assert not [*state.iterdir()]


def test_a_fault_is_told_in_three_lines_and_kept_in_a_file(
    state: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/bin/sparkwright", "lock", "--hf-token", "x"])
    key = "Bearer abcdefgh.ijkl"
    # Neither has a form by which it could be known.
    own, password = "f3a9c0" * 6 + "d7", "hunter2 and more"
    Key(name="ann", secret=own)
    RegistryLogin("registry.lan", "ann", password, "config.json")

    def main() -> int:
        secret = "-".join(("sword", "fish"))
        raise ValueError(f"two\nlines \x1b[2J {key} {own}:{password} {len(secret)}")

    assert guarded(main) == 1
    first, second, third = capsys.readouterr().err.splitlines()
    assert first == "`sparkwright lock` failed by a fault of the program:"
    assert second == "ValueError: two lines \N{REPLACEMENT CHARACTER}[2J [a key] [a key]:[a key] 10"
    (file,) = state.iterdir()
    assert third.startswith(f"The details are in {file}. Report it with this file: ")
    assert third.endswith("sparkwright doctor --data report=-")
    assert file.stat().st_mode & 0o777 == 0o600
    assert "in main" in file.read_text()
    assert "sword-fish" not in file.read_text()
    assert not any(each in file.read_text() for each in (key, own, password))


def test_a_fault_is_told_without_a_folder_for_its_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    guarded(raising(ValueError()))
    assert "The details could not be written to a file (" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (
            ["/bin/pyinfra", "-y", "inventory.py", "deploys/spark.py"],
            "inventory.py deploys/spark.py",
        ),
        (["/bin/sparkwright", "apply", "--data", "a=secret"], "sparkwright apply"),
        (["/bin/sparkwright", "--data", "a=secret"], "sparkwright"),
        (["/lib/sparkwright/__main__.py", "keys", "add", "secret"], "sparkwright keys"),
    ],
)
def test_options_are_not_named(
    words: list[str], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", words)
    assert command().endswith(named)
    assert "secret" not in command()
