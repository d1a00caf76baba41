"""Downloads packages of the Sparks' system, and what they need, into the folder of a bundle.

apt does it, with settings of its own: lists and signatures are those of the Sparks' system, and
this machine's apt is not changed. Each archive is laid down as it is, but for the packages that
nobody needs: with its signature, which the Spark's own apt checks.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from sparkwright.artifacts.bundle.downloads import say
from sparkwright.common.errors import PlanError
from sparkwright.plan.release.bundle import file_hash
from sparkwright.plan.release.lock import inside

_KEYRING = "/usr/share/keyrings/ubuntu-archive-keyring.gpg"
# DGX OS 7 is Ubuntu 24.04. Its archives have each one kind of processors.
_ARCHIVES = {
    "arm64": "http://ports.ubuntu.com/ubuntu-ports",
    "amd64": "http://archive.ubuntu.com/ubuntu",
}
_SUITES = ("noble", "noble-updates", "noble-security")
_DEPENDENCIES = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
# Runs apt: words of a command, and the folder to run it in; returns what it prints.
_Apt = Callable[..., str]


def ubuntu_sources(architecture: str) -> list[str]:
    """Return apt's sources of Ubuntu 24.04."""
    if not Path(_KEYRING).exists():
        raise PlanError(
            f"{_KEYRING}: found no such file; expected the key of Ubuntu's archive: apt-get "
            "install ubuntu-keyring (Debian: ubuntu-archive-keyring), or name another source: "
            "--apt 'deb [signed-by=FILE] URL SUITE COMPONENTS'"
        )
    archive = _ARCHIVES[architecture]
    return [f"deb [signed-by={_KEYRING}] {archive} {suite} main universe" for suite in _SUITES]


def download_packages(
    wanted: Collection[str],
    architecture: str,
    sources: Sequence[str],
    folder: Path,
) -> None:
    """Download packages, and all that they need, with the signed lists of their archives.

    `sources` are lines as in apt's sources.list. Nothing is downloaded if an earlier run has done
    so for the same packages and sources. A package that no source has is only reported: NVIDIA's
    are on every Spark.
    """
    asked, marker = "\n".join([*sorted(wanted), *sources, ""]), folder / ".asked"
    if marker.is_file() and marker.read_text("utf-8") == asked + _content(folder):
        return
    if shutil.which("apt-get") is None:
        raise PlanError(
            "found no apt-get; expected it, as it verifies and downloads the Sparks' packages: run "
            "this on Debian or Ubuntu, or in a container of it, with the same folder"
        )
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with _private_apt(architecture, sources) as apt:
        say(f"packages: reading the lists of {len(sources)} sources for {architecture}")
        apt("apt-get", "update", "--quiet", "-o", "APT::Update::Error-Mode=any")
        there = {*apt("apt-cache", "pkgnames").split()}
        if lacking := sorted({*wanted} - there):
            say(f"packages: no source has {', '.join(lacking)}: a Spark is to have it already")
        chosen = _needed(apt, {*wanted} & there)
        say(f"packages: downloading {len(chosen)} for {architecture}")
        archives = _lay_lists(apt, folder)
        named = apt("apt-get", "download", "--print-uris", *chosen) if chosen else ""
        apt("apt-get", "download", "--quiet", *chosen, folder=folder)
        for url, name in re.findall(r"^'([^']+)' (\S+) ", named, re.MULTILINE):
            archive = max((each for each in archives if url.startswith(each)), key=len)
            place = _below(archives[archive], unquote(url.removeprefix(archive)))
            (folder / name).replace(place)
    marker.write_text(asked + _content(folder), "utf-8")


def _content(folder: Path) -> str:
    """Return the hashes of all files in a folder, so that a damaged one is fetched anew."""
    files = sorted(path for path in folder.rglob("[!.]*") if path.is_file())
    return "".join(f"{file_hash(path)}  {path.relative_to(folder)}\n" for path in files)


def _needed(apt: _Apt, wanted: Collection[str]) -> list[str]:
    """Return packages and all that they depend on, every alternative included.

    What no source has is assumed to be on the Spark: the sources may be a part of its system's.
    """
    if not wanted:
        return []
    words = ("--recurse", *(f"--no-{kind}" for kind in _DEPENDENCIES), *sorted(wanted))
    listed = apt("apt-cache", "depends", *words)
    # What depends on it is indented below a package; virtual ones are in angle brackets.
    return sorted({line for line in listed.splitlines() if line[:1] not in ("", " ", "<")})


def _lay_lists(apt: _Apt, folder: Path) -> dict[str, Path]:
    """Lay down the lists of all sources, signed; return the folder of each archive by its URL."""
    archives: dict[str, Path] = {}
    told = apt(
        *("apt-get", "indextargets", "--format"),
        *("$(REPO_URI)\t$(URI)\t$(METAKEY)\t$(FILENAME)", "Created-By: Packages"),
    )
    for line in told.splitlines():
        archive, url, key, file = line.split("\t")
        own = archives.setdefault(archive, folder / str(len(archives)))
        suite = url.removeprefix(archive).removesuffix(key)
        release = Path(file.removesuffix(key.replace("/", "_")) + "InRelease")
        if not release.exists():
            raise PlanError(
                f"{archive}: found no InRelease; expected it, as the Sparks' apt checks "
                "packages by the archive's signature"
            )
        shutil.copy(file, _below(own, suite + key))
        shutil.copy(release, _below(own, f"{suite}InRelease"))
    return archives


def _below(folder: Path, path: str) -> Path:
    """Return a place in a folder, which is made; the path is an archive's word."""
    place = folder / inside(posixpath.normpath(path))
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


@contextmanager
def _private_apt(architecture: str, sources: Sequence[str]) -> Iterator[_Apt]:
    """Give apt with a folder of its own for all that it reads and writes."""
    with tempfile.TemporaryDirectory(prefix="sparkwright-apt-") as name:
        own = Path(name)
        (own / "lists/partial").mkdir(parents=True)
        (own / "cache/archives/partial").mkdir(parents=True)
        (own / "status").touch()
        (own / "sources.list").write_text("".join(f"{line}\n" for line in sources), "utf-8")
        settings = {
            "APT::Architecture": architecture,
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Dir::State": name,
            "Dir::State::lists": f"{name}/lists",
            "Dir::State::status": f"{name}/status",
            "Dir::Cache": f"{name}/cache",
            "Dir::Etc::sourcelist": f"{name}/sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::Etc::preferences": "/dev/null",
            "Dir::Etc::preferencesparts": "/dev/null",
        }
        lines = [f'{key} "{value}";\n' for key, value in settings.items()]
        lines.append(f'APT::Architectures {{ "{architecture}"; }};\n')
        (own / "apt.conf").write_text("".join(lines), "utf-8")
        environment = {**os.environ, "APT_CONFIG": f"{name}/apt.conf", "LC_ALL": "C"}

        def run(program: str, *words: str, folder: Path | None = None) -> str:
            done = subprocess.run(
                # Containers have this set by a file that comes after ours.
                [program, "-o", "Acquire::GzipIndexes=false", *words],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                said = " ".join(done.stderr.split())[-800:]
                raise PlanError(f"{program} {words[0]} failed: {said}")
            return done.stdout

        yield run
