"""Mods of the lab's own, as a site has them in files/mods."""

import io
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import pip

from tests.lab.state import PROJECT

MODS = PROJECT / "files/mods"


@contextmanager
def mod(
    name: str, script: str, files: Mapping[str, bytes] = MappingProxyType({})
) -> Iterator[Path]:
    """Have a mod, until the block ends; its run.sh begins with a shell and `set -e`."""
    folder = MODS / name
    existed = MODS.exists()
    folder.mkdir(parents=True)
    try:
        write(folder, script)
        for file, content in files.items():
            (folder / file).write_bytes(content)
        yield folder
    finally:
        shutil.rmtree(folder)
        if not existed:
            MODS.rmdir()


def write(folder: Path, script: str) -> None:
    (folder / "run.sh").write_text(f"#!/bin/bash\nset -e\n{script}\n")


def wheel(name: str, text: str) -> bytes:
    about = f"{name}-1.0.dist-info"
    return _zipped(
        {
            f"{name}.py": text,
            f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
            f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{about}/RECORD": "",
        }
    )


def zipped_pip() -> bytes:
    """Return this Python's own pip as an archive that Python can run: the lab's image has none."""
    folder = Path(pip.__file__).parent
    return _zipped(
        {
            f"pip/{path.relative_to(folder)}": path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file() and path.suffix != ".pyc"
        }
    )


def _zipped(files: Mapping[str, str | bytes]) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in files.items():
            opened.writestr(name, content)
    return archive.getvalue()
