"""Managed files: on this machine for what the shell says, in a temporary folder."""

import getpass
import grp
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pyinfra.api.config import config_defaults

from sparkwright.common import placed
from sparkwright.common.files import Directory, Entry, FileState, ManagedFile, Symlink, obstacle
from sparkwright.machine.host.operations.files import managed_files, path_states
from tests.unit.driven import here

USER = getpass.getuser()
GROUP = grp.getgrgid(os.getgid()).gr_name
OWNER = {"user": USER, "group": GROUP}
NAMES = ("a dir", "empty", "current", "root", "new", "taken")

Entries = Callable[[], list[Entry]]


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the names of these tests in the table of what may stand in a root folder."""
    monkeypatch.setattr(placed, "FOLDERS", tuple(map(placed.Folder, NAMES)))


@pytest.fixture
def entries(tmp_path: Path) -> list[Entry]:
    return [
        Directory(f"{tmp_path}/a dir", mode="750", **OWNER),
        ManagedFile(f"{tmp_path}/a dir/it's", "one\ntwo\n", mode="600", **OWNER),
        ManagedFile(f"{tmp_path}/empty", "", **OWNER),
        Symlink(f"{tmp_path}/current", "a dir"),
    ]


def test_makes_what_is_missing_then_changes_nothing(entries: list[Entry], tmp_path: Path) -> None:
    assert here(root=str(tmp_path)).run(managed_files, entries=entries).did_change()
    assert (tmp_path / "a dir/it's").read_text() == "one\ntwo\n"
    assert (tmp_path / "a dir/it's").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "a dir").stat().st_mode & 0o777 == 0o750
    assert (tmp_path / "current").readlink() == Path("a dir")

    again = here(root=str(tmp_path))
    assert not again.run(managed_files, entries=entries).did_change()
    assert len(again.commands) == 1


@pytest.mark.parametrize(
    "spoil",
    [
        lambda root: (root / "empty").write_text("x"),
        lambda root: (root / "empty").chmod(0o666),
        lambda root: (root / "a dir").chmod(0o755),
        lambda root: ((root / "current").unlink(), (root / "current").symlink_to("elsewhere")),
    ],
)
def test_mends_what_differs(
    entries: list[Entry], tmp_path: Path, spoil: Callable[[Path], object]
) -> None:
    here(root=str(tmp_path)).run(managed_files, entries=entries)
    spoil(tmp_path)
    assert here(root=str(tmp_path)).run(managed_files, entries=entries).did_change()
    assert not here(root=str(tmp_path)).run(managed_files, entries=entries).did_change()


def test_a_program_is_put_over_another_whatever_the_run_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With --diff, pyinfra would read the lines of both."""
    monkeypatch.setitem(config_defaults, "DIFF", True)
    for content in (b"\x80\xff", b"\xc3\x28\n"):
        entry = ManagedFile(f"{tmp_path}/new", content, mode="755", **OWNER)
        assert here(root=str(tmp_path)).run(managed_files, entries=[entry]).did_change()
        assert (tmp_path / "new").read_bytes() == content


def test_another_kind_of_thing_fails_before_any_change(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    entries = [
        ManagedFile(f"{tmp_path}/new", "text", **OWNER),
        ManagedFile(f"{tmp_path}/taken", "text", **OWNER),
    ]
    result = here(root=str(tmp_path)).run(managed_files, entries=entries)
    assert result.did_error()
    assert f"{tmp_path}/taken is no file (directory): move it away" in result.stderr
    assert not (tmp_path / "new").exists()


def test_absent_and_unreadable_differ(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("x")
    with here(root=str(tmp_path)).current():
        states = path_states([f"{tmp_path}/plain/below", f"{tmp_path}/none"])
    below = states[f"{tmp_path}/plain/below"]
    assert (below.kind, below.detail) == ("unreadable", "Not a directory")
    assert f"{tmp_path}/none" not in states
    entry = ManagedFile(f"{tmp_path}/plain/below", "text")
    assert obstacle(entry, below) == f"{entry.path} cannot be read: Not a directory."
    assert obstacle(entry, FileState("absent")) is None


def test_a_link_to_nothing_is_one_and_leads_to_nothing(tmp_path: Path) -> None:
    link = f"{tmp_path}/link"
    Path(link).symlink_to("none")
    with here(root=str(tmp_path)).current():
        states = path_states([link])
    assert (states[link].kind, states[link].link) == ("absent", "none")
    # A directory may be a link to one.
    (tmp_path / "disk").mkdir(mode=0o755)
    (tmp_path / "root").symlink_to("disk")
    entry = Directory(f"{tmp_path}/root", **OWNER)
    assert not here(root=str(tmp_path)).run(managed_files, entries=[entry]).did_change()
