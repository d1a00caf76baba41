"""A release: its tag, its notes, its place, and the files and pages of its packages."""

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

import sparkwright
from hatch_build import description, urls
from tests.release import CHANGELOG, address_problem, notes, unready

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


PLACE = {"repository": "https://e.org/o/n", "site": "https://o.e.org/n/"}
WORKFLOW = {"GITHUB_SERVER_URL": "https://e.org", "GITHUB_REPOSITORY": "o/n"}


@pytest.mark.parametrize(
    ("own", "environment", "message"),
    [
        ({"site": ""}, {}, 'tool.sparkwright.site: found ""; expected https://'),
        ({"repository": "e.org/o/n"}, {}, 'repository: found "e.org/o/n"; expected https://'),
        ({}, WORKFLOW | {"GITHUB_REPOSITORY": "o/fork"}, "expected https://e.org/o/fork"),
    ],
)
def test_a_release_without_its_place_is_refused(
    own: dict[str, str], environment: dict[str, str], message: str
) -> None:
    assert address_problem(PLACE, {}) is address_problem(PLACE, WORKFLOW) is None
    assert message in str(address_problem(PLACE | own, environment))


def test_a_clone_is_ready_for_its_tag_once_its_tests_have_passed(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@x", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "--quiet", "--initial-branch=main")
    (tmp_path / ".gitignore").write_text("/test-results/\n")
    git("add", ".")
    git("commit", "--quiet", "--message=x")
    (results := tmp_path / "test-results").mkdir()
    assert [each.partition(":")[0] for each in unready(tmp_path, "v1")] == [
        "test-results/test.passed",
        "test-results/rest.passed",
    ]
    for name in ("test", "rest"):
        (results / f"{name}.passed").write_text(git("rev-parse", "HEAD") + "\n")
    assert [*unready(tmp_path, "v1")] == []
    git("tag", "v1")
    git("switch", "--quiet", "--create=other")
    (tmp_path / "new").touch()
    assert [each.partition(";")[0] for each in unready(tmp_path, "v1")] == [
        "git status: found changes",
        "found the tag v1 already",
        "found the branch other",
    ]


class Links(HTMLParser):
    """The addresses of links and pictures in a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value or "" for name, value in attrs if name in ("href", "src")]


def links(markdown: str) -> list[str]:
    return Links(MarkdownIt().render(markdown)).found


def test_an_index_shows_the_readme_with_links_that_work() -> None:
    text = (PROJECT / "README.md").read_text()
    relative = [each for each in links(text) if "://" not in each]
    shown = links(description(text, "https://e.org/o/n", "1.2.0"))
    assert len(relative) >= 6
    assert [each for each in shown if not each.startswith("https://")] == []
    for each in relative:
        path = each if not each.startswith("#") else f"README.md{each}"
        assert f"https://e.org/o/n/blob/v1.2.0/{path}" in shown
    without = description(text, "", "1.2.0")
    assert links(without) == [each for each in links(text) if "://" in each]
    picture = description("![a [b]](docs/overview.svg) [c](x.md#y)", "https://e.org/o/n", "2")
    assert links(picture) == [
        "https://e.org/o/n/raw/v2/docs/overview.svg",
        "https://e.org/o/n/blob/v2/x.md#y",
    ]


def test_the_addresses_are_those_of_one_place() -> None:
    assert urls("", "https://o.e.org/n/") == {}
    assert urls(**PLACE)["Documentation"] == PLACE["site"]
    assert urls(**PLACE)["Source"] == PLACE["repository"]


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
    version = f"sparkwright-{sparkwright.__version__}"
    assert parts == {"sparkwright", f"{version}.dist-info", f"{version}.data"}
    shared = f"{version}.data/data/share/sparkwright/"
    assert {name.removeprefix(shared) for name in found if f"{version}.data/" in name} == {
        path.name for path in (PROJECT / "docs/schemas").iterdir()
    }
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


def test_the_wheel_has_the_page_of_an_index(built: Path) -> None:
    own = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["sparkwright"]
    found = metadata(built)
    assert found["Description-Content-Type"] == "text/markdown"
    pages = str(found.get_payload())
    assert "# Sparkwright" in pages
    assert [each for each in links(pages) if not each.startswith("https://")] == []
    shown = dict(each.split(", ", 1) for each in found.get_all("Project-URL", []))
    assert shown == urls(own["repository"], own["site"])


def metadata(built: Path) -> Message:
    (wheel,) = built.glob("sparkwright-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        name = f"sparkwright-{sparkwright.__version__}.dist-info/METADATA"
        return message_from_bytes(archive.read(name))


def test_the_sdist_has_files_of_the_repository_alone(
    built: Path, tracked: dict[str, bytes]
) -> None:
    (sdist,) = built.glob("sparkwright-*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names - tracked.keys() == {"PKG-INFO"}
    missing = {name.partition("/")[0] for name in tracked.keys() - names}
    assert missing == {".ci", ".github"}
