"""Downloads packages of the Sparks' system, and what they need, into the folder of a bundle.

apt does it, with settings of its own: lists and signatures are those of the Sparks' system, and
this machine's apt is not changed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from sparkwright.common.errors import PlanError
from sparkwright.release.bundle import file_hash

_KEYRING = "/usr/share/keyrings/ubuntu-archive-keyring.gpg"
# DGX OS 7 is Ubuntu 24.04. Its archives have each one kind of processors.
_ARCHIVES = {
    "arm64": "http://ports.ubuntu.com/ubuntu-ports",
    "amd64": "http://archive.ubuntu.com/ubuntu",
}
_SUITES = ("noble", "noble-updates", "noble-security")
_INDEX = "Packages"
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
    """Have packages, all that they need, and an index of them in a folder.

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
        pins = [f"{name}={available[name]['Version']}" for name in chosen]
        apt.run("apt-get", "download", "--quiet", *pins, folder=new)
        index = [_laid_down(available[name], new) for name in chosen]
        (new / _INDEX).write_text("\n".join(index), "utf-8")
        (new / ".asked").write_text(asked, "utf-8")
    shutil.rmtree(folder, ignore_errors=True)
    new.replace(folder)


def _is_complete(folder: Path, asked: str) -> bool:
    marker, index = folder / ".asked", folder / _INDEX
    if not marker.exists() or not index.exists() or marker.read_text("utf-8") != asked:
        return False
    stanzas = [stanza for _, stanza in _stanzas(index.read_text("utf-8"))]
    return all(_is_whole(folder / stanza["Filename"], stanza) for stanza in stanzas)


def _is_whole(place: Path, stanza: Stanza) -> bool:
    return place.is_file() and file_hash(place) == stanza["SHA256"]


def _laid_down(stanza: Stanza, folder: Path) -> str:
    """Give a package its name in the folder, check it, and return its stanza for the index."""
    name, version, architecture = (stanza[key] for key in ("Package", "Version", "Architecture"))
    # apt writes a colon as %3a, which would be taken for one again.
    (found,) = folder.glob(f"{name}_{version.replace(':', '%3a')}_{architecture}.deb")
    place = found.with_name(f"{name}_{version.replace(':', '.')}_{architecture}.deb")
    found.replace(place)
    if not _is_whole(place, stanza):
        raise PlanError(f"{place}: found another content than the archive's index says")
    lines = {**stanza, "Filename": f"./{place.name}"}
    return "".join(f"{key}: {value}\n" for key, value in lines.items())


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
        done = subprocess.run(
            command,
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
