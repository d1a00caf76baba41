"""Downloads the wheels that Sparks install, by pip, into the folder of a bundle."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Collection
from hashlib import sha256
from pathlib import Path

from sparkwright.common.errors import PlanError
from sparkwright.release.bundle import file_hash, pins

# CPython of Ubuntu 24.04, and of the next ones: the files of requirements have hashes for these.
_PYTHONS = ("3.12", "3.13")
# The C library of Ubuntu 24.04 is 2.39; wheels for older ones run with it.
_GLIBC = range(5, 40)


def download_wheels(requirements: Path, architectures: Collection[str], folder: Path) -> None:
    """Have the wheels of a file of requirements in a folder.

    What an earlier run has brought is not asked for again: a file beside the wheels names them.

    Args:
        requirements: Each with its hashes.
        architectures: As ``uname -m`` prints them.
        folder: Of wheels.

    Raises:
        PlanError: There is no pip, or it fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    text = requirements.read_text("utf-8")
    digest = sha256(text.encode()).hexdigest()[:12]
    allowed = {each for hashes in pins(text).values() for each in hashes}
    for architecture in sorted(architectures):
        for python in _PYTHONS:
            marker = folder / f".{digest}-{architecture}-{python}"
            if marker.exists() and _are_whole(marker.read_text("utf-8").split(), folder, allowed):
                continue
            names = _fetch(requirements, architecture, python, folder)
            marker.write_text("".join(f"{name}\n" for name in names), "utf-8")


def _are_whole(names: Collection[str], folder: Path, allowed: Collection[str]) -> bool:
    places = [folder / name for name in names]
    return all(place.is_file() and file_hash(place) in allowed for place in places)


def _fetch(requirements: Path, architecture: str, python: str, folder: Path) -> list[str]:
    new = folder / ".new"
    shutil.rmtree(new, ignore_errors=True)
    platforms = [f"manylinux_2_{minor}_{architecture}" for minor in reversed(_GLIBC)]
    platforms += [f"manylinux2014_{architecture}", f"linux_{architecture}"]
    abi = f"cp{python.replace('.', '')}"
    command = [
        *(*_pip(), "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
        *("--require-hashes", "--only-binary", ":all:", "--dest", str(new)),
        *("--implementation", "cp", "--python-version", python),
        *(word for each in (abi, "abi3", "none") for word in ("--abi", each)),
        *(word for each in platforms for word in ("--platform", each)),
        *("--requirement", str(requirements)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = " ".join(done.stderr.split())[-800:]
        raise PlanError(
            f"{requirements}: pip cannot download its wheels for Python {python} on "
            f"{architecture}: {said}"
        )
    names = sorted(path.name for path in new.iterdir())
    for name in names:
        (new / name).replace(folder / name)
    new.rmdir()
    return names


def _pip() -> list[str]:
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    if program := shutil.which("pip3") or shutil.which("pip"):
        return [program]
    raise PlanError(
        "found no pip; expected it, as it downloads the wheels: install it beside Sparkwright (uv "
        "pip install pip), or for the system"
    )
