"""Mods: folders whose ``run.sh`` changes an image before vLLM starts in it, with what they hold.

The form is that of sparkrun and spark-vllm-docker, whose launchers copy the folder into the running
container and execute run.sh there as root. Here a Spark does so once, in a build of an image.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkwright.common.errors import PlanError
from sparkwright.common.schema import nearest, shown
from sparkwright.declared.recipe.values import MOD_NAME

# The mods of a site, in whose folder every command runs.
OWN_MODS = Path("files", "mods")
ENTRY = "run.sh"

# They travel to the Spark in one file of orders. The largest mod that we have seen published is one
# Python file of 51 kB; a wheel may be larger.
MOST_MODS, MOST_FILES, MOST_BYTES, MOST_BYTES_IN_ALL = 16, 100, 4 * 2**20, 16 * 2**20
_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}(/[A-Za-z0-9_][A-Za-z0-9_.+-]{0,127}){0,7}")
# Not part of a mod: what editors, file managers, git and Python leave behind.
_LEFT_BEHIND = re.compile(r"\..*|__pycache__")


@dataclass(frozen=True)
class ModFile:
    """A file of a mod."""

    content: bytes
    executable: bool


@dataclass(frozen=True, eq=False)
class ModFolder:
    """A mod: its folder's name, which it keeps in the image, and its files by their paths."""

    name: str
    path: Path
    files: Mapping[str, ModFile]

    @property
    def digest(self) -> str:
        """40 hexadecimal digits of all that the mod is: paths, modes and bytes of its files.

        As long as a commit's. Who writes a mod could find two with the same 12 digits.
        """
        content = [
            [path, file.executable, hashlib.sha256(file.content).hexdigest()]
            for path, file in self.files.items()
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:40]

    @property
    def word(self) -> str:
        """The word by which `trusts` of a replica allows this very mod."""
        return f"mod:{self.name}@{self.digest}"

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(len(file.content) for file in self.files.values())


def read_mods(mods: Sequence[str | Path]) -> list[ModFolder]:
    """Read the mods of an image in their order: folders of files/mods by name, or of a checkout."""
    if len(mods) > MOST_MODS:
        raise PlanError(f"found {len(mods)} mods; expected {MOST_MODS} at most")
    found: list[ModFolder] = []
    problems: list[str] = []
    for mod in mods:
        try:
            found.append(_read(mod))
        except PlanError as error:
            problems += error.problems
    for name, count in Counter(each.name for each in found).items():
        if count > 1:
            problems.append(f"found {name} more than once; expected each mod once")
    if (size := sum(each.size for each in found)) > MOST_BYTES_IN_ALL:
        problems.append(f"found {size:,} bytes in all mods; expected {MOST_BYTES_IN_ALL:,} at most")
    if problems:
        raise PlanError(*problems)
    return found


def _read(mod: str | Path) -> ModFolder:
    folder = mod if isinstance(mod, Path) else OWN_MODS / mod
    if folder is not mod and not (folder / ENTRY).exists():
        known = {path.parent.name for path in OWN_MODS.glob(f"*/{ENTRY}")}
        raise PlanError(f"{OWN_MODS}: found no {mod}/{ENTRY}; {nearest(str(mod), known)}")
    if not MOD_NAME.fullmatch(folder.name):
        raise PlanError(f"{folder}: found {shown(folder.name)}; expected a name of a-z, 0-9, . _ -")
    files: dict[str, ModFile] = {}
    try:
        for path in _paths(folder, folder):
            if len(files) == MOST_FILES:
                raise PlanError(f"{folder}: found more files than {MOST_FILES}, the most of a mod")
            files[path.relative_to(folder).as_posix()] = _file(path, folder)
    except OSError as error:
        raise PlanError(f"{folder}: cannot be read ({error.strerror})") from None
    if ENTRY not in files:
        raise PlanError(f"{folder}: found no {ENTRY}; expected the script that applies the mod")
    return ModFolder(folder.name, folder, dict(sorted(files.items())))


def _paths(folder: Path, top: Path) -> Iterator[Path]:
    if folder.is_symlink():
        raise PlanError(f"{folder}: found a symbolic link; expected files of the mod's own")
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda each: each.name):
            path = folder / entry.name
            name = path.relative_to(top).as_posix()
            if _LEFT_BEHIND.fullmatch(entry.name):
                continue
            if not _PATH.fullmatch(name):
                expected = "expected paths of letters, digits and . _ + -, at most 8 deep"
                raise PlanError(f"{top}: found {shown(name)}; {expected}")
            if entry.is_symlink() or not (entry.is_dir() or entry.is_file()):
                expected = "expected files of the mod's own"
                raise PlanError(f"{path}: found a link or another special file; {expected}")
            if entry.is_dir():
                yield from _paths(path, top)
            else:
                yield path


def _file(path: Path, top: Path) -> ModFile:
    with path.open("rb") as file:
        content = file.read(MOST_BYTES + 1)
        mode = os.fstat(file.fileno()).st_mode
    if len(content) > MOST_BYTES:
        raise PlanError(f"{path}: found more than {MOST_BYTES:,} bytes, the most of a mod's file")
    # The launchers make run.sh executable.
    return ModFile(content, bool(mode & 0o100) or path == top / ENTRY)
