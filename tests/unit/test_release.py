"""A release: its tag, its notes, and the files of its packages."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import sparkwright
from tests.release import CHANGELOG, notes

PROJECT = Path(__file__).parents[2]
TEXT = "## Unreleased\n\n- News.\n\n## 1.2.0 - 2026-12-01\n\n- A thing.\n\n## 1.0.0 - 2026-11-29\n"


@pytest.mark.parametrize(
    ("tag", "version", "message"),
    [
        ("1.2.0", "1.2.0", "found the tag 1.2.0; expected v1.2.0"),
        ("v1.3.0", "1.3.0", "found nothing about 1.3.0"),
        ("v1.0.0", "1.0.0", "found nothing about 1.0.0"),
    ],
)
def test_a_release_without_notes_or_of_another_version_is_refused(
    tag: str, version: str, message: str
) -> None:
    assert notes("v1.2.0", TEXT, "1.2.0") == "- A thing."
    with pytest.raises(ValueError, match=message):
        notes(tag, TEXT, version)


def test_this_version_has_notes() -> None:
    version = sparkwright.__version__
    assert notes(f"v{version}", CHANGELOG.read_text(), version)


@pytest.fixture(scope="module")
def tracked() -> dict[str, bytes]:
    """The files in git, by path."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    )
    paths = [PROJECT / name for name in listed.stdout.split("\0") if name]
    return {str(path.relative_to(PROJECT)): path.read_bytes() for path in paths if path.is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with wheel and sdist."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True, timeout=60)
    return folder


def test_the_wheel_has_the_library_and_its_files_alone(
    built: Path, tracked: dict[str, bytes]
) -> None:
    (wheel,) = built.glob("sparkwright-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        found = {name: archive.read(name) for name in archive.namelist()}
    parts = {name.partition("/")[0] for name in found}
    assert parts == {"sparkwright", f"sparkwright-{sparkwright.__version__}.dist-info"}
    needed = {
        path.replace("files/", "sparkwright/files/", 1) if path.startswith("files/") else path
        for path in tracked
        if path.startswith(("sparkwright/", "files/"))
    }
    assert len(needed) > 300
    assert needed - found.keys() == set()
    contents = set(tracked.values())
    own = {name for name in found if name.startswith("sparkwright/")}
    assert [name for name in own if found[name] not in contents] == []


def test_the_sdist_has_files_of_the_repository_alone(
    built: Path, tracked: dict[str, bytes]
) -> None:
    (sdist,) = built.glob("sparkwright-*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names - tracked.keys() == {"PKG-INFO"}
    missing = {name.partition("/")[0] for name in tracked.keys() - names}
    assert missing == {".ci", ".github"}
