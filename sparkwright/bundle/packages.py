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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote

from sparkwright.common.errors import PlanError
from sparkwright.release.bundle import file_hash
from sparkwright.release.lock import inside

_KEYRING = "/usr/share/keyrings/ubuntu-archive-keyring.gpg"
# DGX OS 7 is Ubuntu 24.04. Its archives have each one kind of processors.
_ARCHIVES = {
    "arm64": "http://ports.ubuntu.com/ubuntu-ports",
    "amd64": "http://archive.ubuntu.com/ubuntu",
}
_SUITES = ("noble", "noble-updates", "noble-security")
# Where an archive's lists are: of a suite's component, or of an archive without suites.
_LISTS = re.compile(
    r"/(\d+)/(?:dists/([\w./+-]+)/([\w+-]+)/binary-[\w-]+/Packages|((?!dists/)[\w./+-]+/)?Packages)"
)
_ESSENTIAL = ("required", "important", "standard")
Stanza = Mapping[str, str]


def ubuntu_sources(architecture: str) -> list[str]:
    """Return apt's sources of Ubuntu 24.04.

    Raises:
        PlanError: Its signing key is not on this machine.
    """
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
    say: Callable[[str], None],
) -> None:
    """Have packages, and all that they need, in a folder for each archive, with its signed lists.

    What an earlier run has brought from the same sources is not asked for again.

    Args:
        wanted: Names. What no source has is only said: NVIDIA's packages are on a Spark already.
        sources: Lines as in apt's sources.list.
        folder: For these.
        say: Is told what goes on.

    Raises:
        PlanError: This machine has no apt, or apt fails.
    """
    asked = sha256("\n".join([*sorted(wanted), *sources]).encode()).hexdigest()
    if _is_complete(folder, asked):
        return
    if shutil.which("apt-get") is None:
        raise PlanError(
            "found no apt-get; expected it, as it verifies and downloads the Sparks' packages: run "
            "this on Debian or Ubuntu, or in a container of it, with the same folder"
        )
    with _private_apt(architecture, sources) as apt:
        say(f"packages: reading the lists of {len(sources)} sources for {architecture}")
        apt.run("apt-get", "update", "--quiet", "-o", "APT::Update::Error-Mode=any")
        available = dict(_stanzas(apt.run("apt-cache", "dumpavail")))
        if lacking := [name for name in sorted(wanted) if name not in available]:
            say(f"packages: no source has {', '.join(lacking)}: a Spark is to have it already")
        chosen = needed([name for name in wanted if name in available], available)
        new = folder.with_name(f".{folder.name}.new")
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        say(f"packages: downloading {len(chosen)} for {architecture}")
        archives = _lay_lists(apt, new)
        pins = [f"{name}={available[name]['Version']}" for name in chosen]
        named = apt.run("apt-get", "download", "--print-uris", *pins) if pins else ""
        apt.run("apt-get", "download", "--quiet", *pins, folder=new)
        for url, name in re.findall(r"^'([^']+)' (\S+) ", named, re.MULTILINE):
            archive = max((each for each in archives if url.startswith(each)), key=len)
            place = _below(archives[archive], unquote(url.removeprefix(archive)))
            (new / name).replace(place)
        known = [path.relative_to(new) for path in new.rglob("*") if path.is_file()]
        sums = {path: file_hash(new / path) for path in known}
        wanted_sums = {available[name]["SHA256"] for name in chosen}
        if wanted_sums - {*sums.values()}:
            raise PlanError(f"{new}: found other packages than the archive's lists say; run again")
        lines = [f"{digest}  {path}\n" for path, digest in sorted(sums.items())]
        (new / ".asked").write_text(f"{asked}\n{''.join(lines)}", "utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    new.replace(folder)


def _is_complete(folder: Path, asked: str) -> bool:
    """Tell whether an earlier run has asked for the same, and all is as it was."""
    marker = folder / ".asked"
    first, *lines = marker.read_text("utf-8").splitlines() if marker.is_file() else [""]
    pairs = [line.split("  ", 1) for line in lines]
    return first == asked and all(
        (folder / path).is_file() and file_hash(folder / path) == digest for digest, path in pairs
    )


def _lay_lists(apt: _Apt, folder: Path) -> dict[str, Path]:
    """Lay down the lists of all sources, signed; return the folder of each archive by its URL.

    Raises:
        PlanError: An archive has no InRelease.
    """
    archives: dict[str, Path] = {}
    told = apt.run(
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


def apt_sources(paths: Iterable[str], folder: str, place: str) -> list[str]:
    """Return the lines of apt's sources.list for the archives in a folder of a bundle.

    apt copies what it checks, as others may be able to write there.

    Args:
        paths: Of the files in the folder.
        place: Where the bundle is.
    """
    components: dict[tuple[str, str], list[str]] = {}
    for path in paths:
        if found := _LISTS.fullmatch(path.removeprefix(folder)):
            number, suite, component, flat = found.groups()
            names = components.setdefault((number, suite or flat or "./"), [])
            names += [component] if component else []
    return [
        " ".join(["deb", f"copy:{place}/{folder}/{number}", suite, *names])
        for (number, suite), names in components.items()
    ]


def needed(wanted: Collection[str], available: Mapping[str, Stanza]) -> list[str]:
    """Return packages with all that they depend on, sorted.

    Of alternatives it is the first that there is. What no source has, a Spark has: the lists may
    be those of a part of its system.
    """
    providers: dict[str, list[str]] = {}
    for name, stanza in sorted(available.items(), key=_by_priority):
        for virtual in _names(stanza.get("Provides", "")):
            providers.setdefault(virtual[0], []).append(name)
    found: set[str] = set()
    waiting = [*wanted]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for key in ("Pre-Depends", "Depends"):
            for alternatives in _names(available[name].get(key, "")):
                real = [each for each in alternatives if each in available]
                real += [each for one in alternatives for each in providers.get(one, ())]
                if not {*found, *waiting}.intersection(real):
                    waiting += real[:1]
    return sorted(found)


def _by_priority(item: tuple[str, Stanza]) -> tuple[bool, str]:
    return item[1].get("Priority") not in _ESSENTIAL, item[0]


def _names(field: str) -> Iterator[list[str]]:
    """Yield the alternatives of each dependency in a field: names without versions."""
    for part in filter(None, map(str.strip, field.split(","))):
        yield [re.split(r"[\s:(\[]", one.strip(), maxsplit=1)[0] for one in part.split("|")]


def _stanzas(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the stanzas of an index by the package's name; lines that go on are left out."""
    for block in text.split("\n\n"):
        pairs = (line.partition(": ") for line in block.splitlines() if line[:1] not in ("", " "))
        stanza = {key: value for key, _, value in pairs}
        if "Package" in stanza:
            yield stanza["Package"], stanza


@dataclass(frozen=True)
class _Apt:
    """apt with a folder of its own for all that it reads and writes."""

    environment: Mapping[str, str]

    def run(self, *command: str, folder: Path | None = None) -> str:
        program, *words = command
        done = subprocess.run(
            # Containers have this set by a file that comes after ours.
            [program, "-o", "Acquire::GzipIndexes=false", *words],
            cwd=folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            said = " ".join(done.stderr.split())[-800:]
            raise PlanError(f"{' '.join(command[:2])} failed: {said}")
        return done.stdout


@contextmanager
def _private_apt(architecture: str, sources: Sequence[str]) -> Iterator[_Apt]:
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
        yield _Apt({**os.environ, "APT_CONFIG": f"{name}/apt.conf", "LC_ALL": "C"})
