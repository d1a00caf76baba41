"""Packages of a bundle: what a run has brought, and by which sources apt reads it."""

from pathlib import Path

import pytest

from sparkwright.artifacts.bundle.downloads import download_packages
from sparkwright.machine.host.operations.packages import apt_sources
from tests.makers.shell import program

# An archive of one package, as apt tells of it.
APT = """\
echo "$@" >>{home}/calls
case "$*" in
  *indextargets*) printf 'http://a/\\thttp://a/Packages\\tPackages\\t{home}/a_Packages\\n' ;;
  *pkgnames*) echo haproxy ;;
  *depends*) printf 'haproxy\\n  Depends: <awk>\\n    mawk\\n<awk>\\nlibc6\\n' ;;
  *--print-uris*) echo "'http://a/pool/haproxy_1_arm64.deb' haproxy_1_arm64.deb 1 SHA256:0" ;;
  *download*) echo archive >haproxy_1_arm64.deb ;;
esac
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("apt-get", "apt-cache"):
        program(tmp_path / name, APT.format(home=tmp_path))
    for name in ("a_Packages", "a_InRelease"):
        (tmp_path / name).write_text(name)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def calls(home: Path, *wanted: str) -> list[str]:
    """Have packages in a bundle; return what apt is asked for that."""
    (home / "calls").write_text("")
    download_packages(wanted, "arm64", ["deb http://a/ ./"], home / "bundle")
    return (home / "calls").read_text().splitlines()


def test_they_are_laid_down_as_in_their_archive_with_what_they_need(home: Path) -> None:
    asked = calls(home, "haproxy", "nowhere")
    assert asked[-1].endswith("download --quiet haproxy libc6")
    found = {
        path.relative_to(home / "bundle/0").as_posix() for path in (home / "bundle/0").rglob("*")
    }
    assert found == {"Packages", "InRelease", "pool", "pool/haproxy_1_arm64.deb"}


def test_they_are_fetched_again_only_if_something_is_another(home: Path) -> None:
    assert calls(home, "haproxy")
    assert not calls(home, "haproxy")
    assert calls(home, "haproxy", "earlyoom")
    package = home / "bundle/0/pool/haproxy_1_arm64.deb"
    package.write_text("damaged")
    assert calls(home, "haproxy", "earlyoom")
    assert package.read_text() == "archive\n"
    package.unlink()
    assert calls(home, "haproxy", "earlyoom")
    assert package.exists()


@pytest.mark.parametrize(
    ("paths", "lines"),
    [
        (["Packages", "InRelease", "a_1_arm64.deb"], ["/0 ./"]),
        (["arm64/Packages"], ["/0 arm64/"]),
        (
            [f"dists/noble/{name}/binary-arm64/Packages" for name in ("main", "universe")],
            ["/0 noble main universe"],
        ),
        (["dists/x [trusted=yes]/main/binary-arm64/Packages"], []),
        (["dists/x\ndeb/main/binary-arm64/Packages"], []),
    ],
)
def test_the_sources_of_archives(paths: list[str], lines: list[str]) -> None:
    folder = "packages/arm64"
    found = apt_sources([f"{folder}/0/{path}" for path in paths], folder, "/r/bundle")
    assert found == [f"deb copy:/r/bundle/{folder}{line}" for line in lines]
