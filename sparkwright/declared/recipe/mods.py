"""Mods: folders whose ``run.sh`` changes an image before vLLM starts in it, and what scripts do.

The form is that of sparkrun and spark-vllm-docker, whose launchers copy the folder into the running
container and execute run.sh there as root. Here a Spark does so once, in a build of an image.

In scripts words are looked for, which is no proof: what a script hides, they do not find. So a
short script is shown whole, and only the owner's word allows a mod. Each script is read once, up to
a bound, and each pattern looks at a line once.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sparkwright.common.errors import PlanError, refuse
from sparkwright.common.progress import size_text
from sparkwright.common.schema import nearest, shown
from sparkwright.common.terminal import plain
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

# Lines of a script that is shown whole, and their characters.
_SHORT, _LONGEST = 40, 500
# Bytes of all scripts of a mod, and characters of a line, in which words are looked for.
_READ, _LINE = 2**18, 2000

_INSTALLER = re.compile(r"\b(?:pip3?|uv|apt(?:-get)?|conda|npm|cargo|dpkg)\b")
_INSTALL = re.compile(r"\s(?:install|add|-i)\b")
_FETCH = re.compile(
    r"\b(?:curl|wget|aria2c|git\s(?:clone|fetch|pull)|huggingface-cli|hf\sdownload|rsync|scp)\b"
    r"|urlopen|urlretrieve|requests\.(?:get|post|request)|hf_hub_download|snapshot_download"
    r"|(?:https?|ftp|git|ssh)://"
)
_CHANGE = re.compile(
    r"\b(?:patch|cp|mv|ln|install|tee)\s|\bgit\s(?:apply|am)\b|\bsed\s(?:-\S*i|--in-place)"
    r"|(?:dist|site)-packages"
)
_BACKGROUND = re.compile(r"\b(?:nohup|setsid|disown)\b|(?<![&>])&$")
_HUB_CACHE = re.compile(
    r"\b(?:HF_HOME|HF_HUB_CACHE|HUGGINGFACE_HUB_CACHE|TRANSFORMERS_CACHE)\b"
    r"|cache/huggingface\b|\bmodels--|/snapshots/"
)
_RUNS = re.compile(r"\b(?:python[\d.]*|bash|sh|source)\s|(?:^|\s)\.\s|\./")
_WORD = re.compile(r"[\w.+-]+")
_SAYS = re.compile(r"(?:echo|printf)\b[^|>`]*$")


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

    @property
    def is_online(self) -> bool:
        """Whether anything in the scripts asks a network; if not, the build step gets none."""
        return any(map(_asks_network, self._commands))

    @property
    def drops_caches(self) -> bool:
        """Whether it does nothing but empty the page cache, as the supervisor does itself."""
        others = [line for line in self._commands if "drop_caches" not in line]
        return len(others) < len(self._commands) and not any(
            _asks_network(line) or _installs(line) or _CHANGE.search(line) for line in others
        )

    def impossible(self) -> Iterator[str]:
        """Yield, as a problem, the first line of each script that a build has no use for.

        An image keeps no process, and a build has no checkpoint: those are as the lock has them.
        """
        if (size := sum(len(self.files[path].content) for path in self._scripts)) > _READ:
            found = f"found {size:,} bytes of scripts"
            yield f"{self.path}: {found}; expected {_READ:,}, which can be read"
        for path, lines in self._scripts.items():
            stays = path.endswith(".py") or any(line.split()[0] == "wait" for _, line in lines)
            for number, line in lines:
                if _SAYS.match(line):
                    continue
                if _HUB_CACHE.search(line):
                    reason = (
                        "no cache of the Hub is there, and checkpoints stay as the lock has them"
                    )
                elif not stays and _BACKGROUND.search(line):
                    reason = "an image keeps no process, so this would have no effect"
                else:
                    continue
                found = f"{self.path / path}:{number}: found {plain(line, 60)}"
                yield f"{found}; expected changes of the image's files alone: {reason}"
                break

    def description(self) -> list[str]:
        """Return the lines that tell a person what a mod is, safe for a terminal."""
        many = f"{len(self.files)} file{'s' * (len(self.files) != 1)}"
        told = [f"mod {self.name}: {many}, {_size(self.size)}, of {self.path}"]
        told += [f"  {path}  {_size(len(file.content))}" for path, file in self.files.items()]
        script = self.files[ENTRY].content[:_READ].decode(errors="replace").rstrip("\n").split("\n")
        runs = f"  as root in a container of the build, it runs {ENTRY}:"
        if len(script) <= _SHORT and all(len(line) <= _LONGEST for line in script):
            told += [runs, *(f"    | {line}" for line in script)]
        else:
            told.append(f"{runs} read its {len(script)} lines")
        if others := [path for path in self._scripts if path != ENTRY]:
            told.append(f"  that runs {', '.join(others)}: read that, too")
        differs = "yes: what a build gets there may differ from day to day"
        told.append(f"  network: {differs if self.is_online else 'none'}")
        return [plain(line) for line in told]

    @cached_property
    def _scripts(self) -> dict[str, list[tuple[int, str]]]:
        """run.sh, and the scripts that it runs as far as it names them, by their lines."""
        first = _lines(self.files[ENTRY].content[:_READ])
        names = {word for _, line in first if _RUNS.search(line) for word in _WORD.findall(line)}
        found, left = {ENTRY: first}, _READ - len(self.files[ENTRY].content)
        for path, file in self.files.items():
            # `$FOLDER/fix.py` and `$(dirname "$0")/fix.py` name it as well.
            named = path.endswith((".sh", ".py")) and path.rpartition("/")[2] in names
            if path != ENTRY and named:
                found[path] = _lines(file.content[: max(left, 0)])
                left -= len(file.content)
        return found

    @cached_property
    def _commands(self) -> list[str]:
        """The lines of the scripts that do more than print."""
        lines = [line for lines in self._scripts.values() for _, line in lines]
        return [line for line in lines if not _SAYS.match(line)]


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
    refuse(problems)
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
        for name, file in _files(folder, folder):
            if len(files) == MOST_FILES:
                raise PlanError(f"{folder}: found more files than {MOST_FILES}, the most of a mod")
            files[name] = file
    except OSError as error:
        raise PlanError(f"{folder}: cannot be read ({error.strerror})") from None
    if ENTRY not in files:
        raise PlanError(f"{folder}: found no {ENTRY}; expected the script that applies the mod")
    return ModFolder(folder.name, folder, dict(sorted(files.items())))


def _files(folder: Path, top: Path) -> Iterator[tuple[str, ModFile]]:
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
                yield from _files(path, top)
                continue
            with path.open("rb") as file:
                content = file.read(MOST_BYTES + 1)
                mode = os.fstat(file.fileno()).st_mode
            if len(content) > MOST_BYTES:
                found = f"found more than {MOST_BYTES:,} bytes"
                raise PlanError(f"{path}: {found}, the most of a mod's file")
            # The launchers make run.sh executable.
            yield name, ModFile(content, bool(mode & 0o100) or name == ENTRY)


def _installs(line: str) -> bool:
    installer = _INSTALLER.search(line)
    return bool(installer and _INSTALL.search(line, installer.end()))


def _asks_network(line: str) -> bool:
    return bool((_installs(line) and "--no-index" not in line) or _FETCH.search(line))


def _lines(content: bytes) -> list[tuple[int, str]]:
    """Return the lines that are no comments, with their numbers; a line that goes on is one."""
    found: list[tuple[int, str]] = []
    parts: list[str] = []
    start = 0
    for number, line in enumerate([*content.decode(errors="replace").split("\n"), ""], 1):
        start = start if parts else number
        parts.append(line.removesuffix("\\"))
        if not line.endswith("\\"):
            whole = " ".join("".join(parts).split())[:_LINE]
            if whole and not whole.startswith("#"):
                found.append((start, whole))
            parts = []
    return found


def _size(count: int) -> str:
    return f"{count} bytes" if count < 1000 else size_text(count)
