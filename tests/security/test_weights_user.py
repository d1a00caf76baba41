"""A folder of weights in the hands of a user who fetches them, and back in root's."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from host.artifacts.weights.hand_over import hand_over

# Nobody has this one: it is beyond those that systemd gives away.
FETCHER = 59_999

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def fetcher(tmp_path: Path) -> Path:
    """A file of the user who fetches."""
    file = tmp_path / "fetcher"
    file.touch()
    os.chown(file, FETCHER, FETCHER)
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A checkpoint's folder: one file of its own, one that another commit has too."""
    folder, other = tmp_path / "new", tmp_path / "other"
    for path in (folder / "sub", other):
        path.mkdir(parents=True)
    (folder / "sub/own").write_text("own")
    (other / "shared").write_text("verified")
    (folder / "shared").hardlink_to(other / "shared")
    yield folder
    assert (other / "shared").stat().st_uid == 0


def owners(folder: Path) -> dict[str, int]:
    return {path.name: path.lstat().st_uid for path in (folder, *folder.rglob("*"))}


def test_it_is_the_users_and_then_roots(folder: Path, fetcher: Path) -> None:
    hand_over(folder, fetcher)
    assert owners(folder) == {"new": FETCHER, "sub": FETCHER, "own": FETCHER, "shared": 0}
    hand_over(folder, Path("/"))
    assert set(owners(folder).values()) == {0}


def test_what_the_user_has_linked_comes_back_too(folder: Path, fetcher: Path) -> None:
    hand_over(folder, fetcher)
    (folder / "again").hardlink_to(folder / "sub/own")
    hand_over(folder, Path("/"))
    assert set(owners(folder).values()) == {0}


def test_a_file_of_its_owners_stays_theirs(folder: Path, fetcher: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("filled by hand")
    os.chown(theirs, 1000, 1000)
    (folder / "theirs").hardlink_to(theirs)
    for owner in (fetcher, Path("/")):
        hand_over(folder, owner)
        assert theirs.stat().st_uid == 1000


@pytest.mark.parametrize("name", ["link", "sub/link", ".sparkwright.json.new"])
def test_no_link_leads_root_elsewhere(
    folder: Path, fetcher: Path, tmp_path: Path, name: str
) -> None:
    for there in ("file", "folder"):
        target = tmp_path / there
        target.mkdir() if there == "folder" else target.touch()
        (folder / name).symlink_to(target)
        hand_over(folder, fetcher)
        assert not (folder / name).is_symlink()
        assert target.stat().st_uid == 0


def test_what_is_neither_file_nor_folder_goes(folder: Path, fetcher: Path) -> None:
    os.mkfifo(folder / ".sparkwright-progress.json")
    hand_over(folder, Path("/"))
    assert not (folder / ".sparkwright-progress.json").exists()
