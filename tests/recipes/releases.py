"""The Python files of vLLM's releases, without the kernels: 30 MB of a wheel of 250 to 430.

    python -m tests.recipes.releases [RELEASE …]

adds releases to releases.txt, with the hash that pip's index has: by default those by which recipes
are checked and which the list lacks. It downloads none yet.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from sparkwright.declared.recipe.loader import load_recipe, recipe_names
from sparkwright.declared.recipe.vllm_names import number
from tests.lab import cache
from tests.lab.state import LabError
from tests.recipes import parser

LIST = Path(__file__).with_name("releases.txt")

_KEPT = (".py", ".json", ".jinja", "METADATA", "entry_points.txt")
_TUNING = "/fused_moe/configs/"  # 500 files that neither parser nor configuration reads
_PLATFORMS = tuple(f"manylinux_2_{minor}_x86_64" for minor in (35, 31, 28))


def known() -> list[str]:
    """Return the versions that releases.txt lists."""
    return [name.removeprefix("vllm==") for name in _listed() if name.startswith("vllm==")]


def files(version: str) -> Path:
    """Return the folder of a release's Python files, downloaded first if need be.

    Raises:
        LabError: releases.txt does not list it, or pip cannot get exactly this file.
    """
    listed = _listed()
    if f"vllm=={version}" not in listed:
        names = ", ".join(known())
        raise LabError(f"{LIST}: found no vLLM {version}; expected one of {names}")
    others = [line for name, line in listed.items() if not name.startswith("vllm==")]
    lines = [listed[f"vllm=={version}"], *others]

    def download(folder: Path) -> None:
        print(f"vLLM {version}: downloading the wheel", flush=True)
        with tempfile.TemporaryDirectory(dir=cache.cache_folder()) as work:
            _download(lines, Path(work))
            for wheel in Path(work).glob("*.whl"):
                _keep(wheel, folder)
        if number(version) < (0, 30):
            # These take only a version like this for a sign that they run without a GPU; later ones
            # go by VLLM_TARGET_DEVICE.
            metadata = folder / f"vllm-{version}.dist-info/METADATA"
            text = metadata.read_text()
            metadata.write_text(re.sub(r"(?m)^(Version: .*)$", r"\1+cpu", text, count=1))

    return cache.entry(f"vllm-{version}", [*lines, Path(__file__)], download)


def _listed() -> dict[str, str]:
    """Return the lines of releases.txt by `NAME==VERSION`."""
    lines = LIST.read_text().splitlines()
    return {line.split()[0]: line for line in lines if line and not line.startswith("#")}


def _download(lines: list[str], folder: Path) -> None:
    """Let this Python's pip get files, so that the machine's settings count."""
    wanted = folder / "wanted.txt"
    wanted.write_text("\n".join(lines))
    options = ["--no-cache-dir", "--require-hashes", f"--requirement={wanted}", f"--dest={folder}"]
    _pip("download", *options)


def _pip(command: str, *options: str) -> str:
    """Run pip for the platform of an engine's image; return what it prints."""
    words = [sys.executable, "-m", "pip", command, "--quiet", "--disable-pip-version-check"]
    words += ["--no-deps", "--only-binary=:all:", "--python-version=3.11"]
    words += [*(f"--platform={name}" for name in _PLATFORMS), *options]
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise LabError(f"pip {command}: {done.stderr[-5000:]}")
    return done.stdout


def _keep(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(_KEPT) and _TUNING not in name:
                archive.extract(name, folder)


def checked_by() -> set[str]:
    """Return the releases of vLLM by which our recipes are checked."""
    recipes = map(load_recipe, recipe_names())
    return {recipe.judge for recipe in recipes if recipe.release}


def lacking() -> list[str]:
    """Return those of them that releases.txt lacks."""
    return sorted(checked_by() - {*known()}, key=number)


def add(versions: Iterable[str]) -> None:
    """Add releases to releases.txt, each in its place."""
    lines = LIST.read_text().splitlines()
    listed = {line.split()[0]: line for line in lines if line.startswith("vllm==")}
    listed |= {f"vllm=={each}": f"vllm=={each} --hash=sha256:{sha256(each)}" for each in versions}
    ordered = sorted(listed, key=lambda name: number(name.removeprefix("vllm==")))
    head = [line for line in lines if line.startswith("#")]
    others = [line for line in lines if not line.startswith(("#", "vllm=="))]
    LIST.write_text("\n".join([*head, *(listed[name] for name in ordered), *others, ""]))


def sha256(version: str) -> str:
    """Return the hash of the wheel that pip would download.

    Raises:
        LabError: pip's index has no such release.
    """
    options = ["--dry-run", "--ignore-installed", "--no-cache-dir", "--target=none", "--report=-"]
    (wheel,) = json.loads(_pip("install", *options, f"vllm=={version}"))["install"]
    return str(wheel["download_info"]["archive_info"]["hashes"]["sha256"])


def main(words: Sequence[str] | None = None) -> int:
    """Add releases to the list. Returns the exit status."""
    command = parser("tests.recipes.releases", __doc__)
    command.add_argument("releases", nargs="*", metavar="RELEASE", help="a version of vLLM")
    versions = command.parse_args(words).releases or lacking()
    try:
        add(versions)
    except LabError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{LIST}: {', '.join(versions) or 'nothing'} added")
    return 0


if __name__ == "__main__":
    sys.exit(main())
