"""What a mod's scripts do, for a person who is to allow it, and whether a build needs a network.

Words are looked for, which is no proof: what a script hides, they do not find. So a short script is
shown whole, and only the owner's word allows a mod. Each script is read once, up to a bound, and
each pattern looks at a line once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from sparkwright.common.progress import size_text
from sparkwright.common.terminal import plain
from sparkwright.declared.recipe.mods import ENTRY, ModFolder

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


def _commands(mod: ModFolder) -> list[str]:
    """Return the lines of a mod's scripts that do more than print."""
    lines = [line for lines in _scripts(mod).values() for _, line in lines]
    return [line for line in lines if not _SAYS.match(line)]


def _installs(line: str) -> bool:
    installer = _INSTALLER.search(line)
    return bool(installer and _INSTALL.search(line, installer.end()))


def _asks_network(line: str) -> bool:
    return bool((_installs(line) and "--no-index" not in line) or _FETCH.search(line))


def is_online(mod: ModFolder) -> bool:
    """Tell whether anything in a mod's scripts asks a network; if not, its build step gets none."""
    return any(map(_asks_network, _commands(mod)))


def drops_caches(mod: ModFolder) -> bool:
    """Tell whether a mod does nothing but empty the page cache, as the supervisor does itself."""
    lines = _commands(mod)
    others = (line for line in lines if "drop_caches" not in line)
    return any("drop_caches" in line for line in lines) and not any(
        _asks_network(line) or _installs(line) or _CHANGE.search(line) for line in others
    )


def impossible(mod: ModFolder) -> Iterator[str]:
    """Yield, as a problem, the first line of each script that a build has no use for.

    An image keeps no process, and a build has no checkpoint: those are as the lock has them.
    """
    scripts = _scripts(mod)
    if (size := sum(len(mod.files[path].content) for path in scripts)) > _READ:
        yield f"{mod.path}: found {size:,} bytes of scripts; expected {_READ:,}, which can be read"
    for path, lines in scripts.items():
        stays = path.endswith(".py") or any(line.split()[0] == "wait" for _, line in lines)
        for number, line in lines:
            if _SAYS.match(line):
                continue
            if _HUB_CACHE.search(line):
                reason = "no cache of the Hub is there, and checkpoints stay as the lock has them"
            elif not stays and _BACKGROUND.search(line):
                reason = "an image keeps no process, so this would have no effect"
            else:
                continue
            found = f"{mod.path / path}:{number}: found {plain(line, 60)}"
            yield f"{found}; expected changes of the image's files alone: {reason}"
            break


def description(mod: ModFolder) -> Iterator[str]:
    """Yield the lines that tell a person what a mod is, safe for a terminal."""
    return map(plain, _description(mod))


def _description(mod: ModFolder) -> Iterator[str]:
    count = len(mod.files)
    yield f"mod {mod.name}: {count} file{'s' * (count != 1)}, {_size(mod.size)}, of {mod.path}"
    for path, file in mod.files.items():
        yield f"  {path}  {_size(len(file.content))}"
    script = mod.files[ENTRY].content[:_READ].decode(errors="replace").rstrip("\n").split("\n")
    if len(script) <= _SHORT and all(len(line) <= _LONGEST for line in script):
        yield f"  as root in a container of the build, it runs {ENTRY}:"
        yield from (f"    | {line}" for line in script)
    else:
        lines = len(script)
        yield f"  as root in a container of the build, it runs {ENTRY}: read its {lines} lines"
    if others := [path for path in _scripts(mod) if path != ENTRY]:
        yield f"  that runs {', '.join(others)}: read that, too"
    differs = "yes: what a build gets there may differ from day to day"
    yield f"  network: {differs if is_online(mod) else 'none'}"


@lru_cache(maxsize=32)
def _scripts(mod: ModFolder) -> dict[str, list[tuple[int, str]]]:
    """Return run.sh, and the scripts that it runs as far as it names them, by their lines."""
    first = _lines(mod.files[ENTRY].content[:_READ])
    names = {word for _, line in first if _RUNS.search(line) for word in _WORD.findall(line)}
    found, left = {ENTRY: first}, _READ - len(mod.files[ENTRY].content)
    for path, file in mod.files.items():
        # `$FOLDER/fix.py` and `$(dirname "$0")/fix.py` name it as well.
        named = path.endswith((".sh", ".py")) and path.rpartition("/")[2] in names
        if path != ENTRY and named:
            found[path] = _lines(file.content[: max(left, 0)])
            left -= len(file.content)
    return found


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
