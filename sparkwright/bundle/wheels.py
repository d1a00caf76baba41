"""Downloads the wheels that Sparks install, by pip, into the folder of a bundle."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from sparkwright.common.errors import PlanError

# CPython of Ubuntu 24.04, and of the next ones: the files of requirements have hashes for these.
_PYTHONS = ("3.12", "3.13")
# The C library of Ubuntu 24.04 is 2.39; wheels for older ones run with it.
_GLIBC = range(5, 40)


def download_wheels(requirements: Path, architectures: Collection[str], folder: Path) -> None:
    """Have the wheels of a file of requirements, which has their hashes, in a folder.

    Args:
        architectures: As ``uname -m`` prints them.

    Raises:
        PlanError: There is no pip, or it fails.
    """
    if not importlib.util.find_spec("pip"):
        raise PlanError(
            "found no pip; expected it, as it downloads the wheels: install it beside Sparkwright "
            "(uv pip install pip)"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for architecture in sorted(architectures):
        for python in _PYTHONS:
            # Where an earlier run has brought all of them, PyPI is not asked.
            said = _pip(requirements, architecture, python, folder, "--no-index")
            if said and (said := _pip(requirements, architecture, python, folder)):
                raise PlanError(
                    f"{requirements}: pip cannot download its wheels for Python {python} on "
                    f"{architecture}: {said}"
                )


def _pip(requirements: Path, architecture: str, python: str, folder: Path, *words: str) -> str:
    """Return why pip failed; "" if it did not."""
    platforms = [f"manylinux_2_{minor}_{architecture}" for minor in reversed(_GLIBC)]
    platforms += [f"manylinux2014_{architecture}", f"linux_{architecture}"]
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
        *("--no-deps", "--require-hashes", "--only-binary", ":all:", "--implementation", "cp"),
        *("--dest", str(folder), "--find-links", str(folder), "--python-version", python, *words),
        *(f"--abi={each}" for each in (f"cp{python.replace('.', '')}", "abi3", "none")),
        *(f"--platform={each}" for each in platforms),
        *("--requirement", str(requirements)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return " ".join(done.stderr.split())[-800:] if done.returncode else ""
