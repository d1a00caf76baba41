"""The Python files of vLLM's releases, without the kernels: 30 MB of a wheel of 250 to 430."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.lab import cache
from tests.lab.state import LabError

LIST = Path(__file__).with_name("releases.txt")

_KEPT = (".py", ".json", ".jinja", "METADATA", "entry_points.txt")
_TUNING = "/fused_moe/configs/"  # 500 files that neither parser nor configuration reads
_PLATFORMS = tuple(f"manylinux_2_{minor}_x86_64" for minor in (35, 31, 28))


def known() -> list[str]:
    """Return the versions that releases.txt lists."""
    return [name.removeprefix("vllm==") for name in _listed() if name.startswith("vllm==")]


def number(version: str) -> tuple[int, ...]:
    """Return a version as numbers, to compare it."""
    return tuple(int(part) for part in version.split("."))


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
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-cache-dir"]
    pip += ["--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    pip += ["--python-version=3.11", *(f"--platform={name}" for name in _PLATFORMS)]
    pip += [f"--requirement={wanted}", f"--dest={folder}"]
    done = subprocess.run(
        pip, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise LabError(f"pip download: {done.stderr[-5000:]}")


def _keep(wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if name.endswith(_KEPT) and _TUNING not in name:
                archive.extract(name, folder)
