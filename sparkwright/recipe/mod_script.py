"""What a mod does, in the lines of its scripts that matter, for a person who is to allow it.

These are words that are looked for, no proof: what a script hides, they do not find. So a short
script is shown whole as well, and only the owner's word allows a mod.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from sparkwright.common.progress import size_text
from sparkwright.common.terminal import plain
from sparkwright.recipe.mods import ENTRY, ModFolder

# Lines of a script that is shown whole, and their characters; of a longer one, those that matter.
_SHORT, _LONGEST = 40, 500
# Characters of a line, lines, and files of a patch, that are shown of what is not.
_WIDTH, _STEPS, _MOST = 160, 60, 12
# Bytes of a script, and characters of a line, in which words are looked for: what is behind them
# gets no network.
_LOOKED_AT, _LINE = 2**18, 2000

_INSTALL = re.compile(
    r"\b(?:pip3?|uv|apt(?:-get)?|conda|npm|cargo|dpkg)\b.*?\s(?:install|add|-i)\b(.*)"
)
_FETCH = re.compile(
    r"\b(?:curl|wget|aria2c|git\s+(?:clone|fetch|pull)|huggingface-cli|hf\s+download|rsync|scp)\b"
    r"|urlopen|urlretrieve|requests\.(?:get|post|request)|hf_hub_download|snapshot_download"
)
_URL = re.compile(r"(?:https?|ftp|git|ssh)://[^\s'\"|)>;]+")
_CHANGE = re.compile(
    r"\bpatch\s+-|\bgit\s+(?:apply|am)\b|\bsed\s+(?:-\S*i|--in-place)|(?:dist|site)-packages"
    r"|\b(?:cp|mv|ln|install|tee)\s.*(?:\$\{?WORKSPACE_DIR|\s/)"
)
_HASHED = re.compile(
    r"\b(?:sha256sum|sha512sum|shasum|b2sum)\b.*(?:-\w*c|--check)|--require-hashes"
)
_COMMIT = re.compile(r"\b[0-9a-f]{40}\b")
_BACKGROUND = re.compile(r"\b(?:nohup|setsid|disown)\b|(?<![&>])&$")
_PASSED_OVER = re.compile(r"\|\|\s*(?:echo|true|:|printf)\b|\|\|\s*:")
_STRICT = re.compile(r"set\s+-\w*e|#!\S*bash\s+-\w*e")
_RUNS = re.compile(r"\b(?:python[\d.]*|bash|sh|source)\s|(?:^|\s)\.\s|\./")
_WORD = re.compile(r"[\w.+/-]+")
_SAYS = re.compile(r"\s*(?:echo|printf)\b[^|>`]*$")
_PATCHED = re.compile(r"^\+\+\+ (?:b/)?(\S+)", re.MULTILINE)
_LOCAL = re.compile(r"(?:\./|/)?[\w./*+-]*\.whl|\.|\./\S*")
_PINNED = re.compile(r"[\w.\[\],-]+={2,3}[\w.+!-]+")
_WITHOUT_INDEX = re.compile(r"--no-index\b|--no-deps\b")


@dataclass(frozen=True)
class Step:
    """A line of a script that reaches beyond the mod's own files.

    Attributes:
        place: File and line, ``run.sh:9``.
        text: The line, with those that it goes on in.
        what: What it does, in a few words.
        pinned: False where what it gets may be something else another day.
        online: It needs a network.
    """

    place: str
    text: str
    what: str
    pinned: bool = True
    online: bool = False


def steps(mod: ModFolder) -> list[Step]:
    """Return the lines of a mod's scripts that matter, in the order of files and lines."""
    found = []
    for path in _scripts(mod):
        lines = _lines(mod, path)
        hashed = any(_HASHED.search(line) for _, line in lines)
        found += [
            step
            for number, line in lines
            if (step := _step(f"{path}:{number}", line, hashed=hashed))
        ]
    return found


def is_online(mod: ModFolder) -> bool:
    """Tell whether anything in a mod's scripts asks a network; if not, its build step gets none."""
    return any(step.online for step in steps(mod))


def lasting(mod: ModFolder) -> Iterator[str]:
    """Yield the first line of each script that starts what an image cannot keep, as a problem."""
    for path in _scripts(mod):
        lines = _lines(mod, path)
        if path.endswith(".py") or any(line.split()[0] == "wait" for _, line in lines):
            continue
        for number, line in lines:
            if _BACKGROUND.search(line) and not _SAYS.match(line):
                yield (
                    f"{mod.path / path}:{number}: found {plain(line, 60)}; expected changes of "
                    "files alone: an image keeps no process, so this would have no effect"
                )
                break


def description(mod: ModFolder) -> Iterator[str]:
    """Yield the lines that tell a person what a mod is and does, safe for a terminal."""
    return map(plain, _description(mod))


def _description(mod: ModFolder) -> Iterator[str]:
    count = len(mod.files)
    yield f"mod {mod.name}: {count} file{'s' * (count != 1)}, {_size(mod.size)}, of {mod.path}"
    for path, file in mod.files.items():
        yield f"  {path}  {_size(len(file.content))}{_patched(file.content)}"
    script = _text(mod, ENTRY).rstrip("\n").split("\n")
    found = steps(mod)
    more = [f"    and {len(found) - _STEPS} more"] if len(found) > _STEPS else []
    if len(script) <= _SHORT and all(len(line) <= _LONGEST for line in script):
        yield f"  its {ENTRY}:"
        yield from (f"    | {line}" for line in script)
    else:
        yield f"  its {ENTRY} is long ({len(script)} lines): read it. Those that matter:"
        yield from (f"    {each.place}: {plain(each.text, _WIDTH)}" for each in found[:_STEPS])
        yield from more
    if others := [path for path in _scripts(mod) if path != ENTRY]:
        yield f"  it runs {', '.join(others)}: read that, too"
    yield "  what it does there, as root in a container of the build:"
    yield from (f"    {each.place} {each.what}" for each in found[:_STEPS])
    yield from more
    if not found:
        yield "    nothing that is known to reach beyond its own files"
    if not any(map(_STRICT.match, map(str.strip, script))):
        yield f"    {ENTRY} has no `set -e`: it goes on after a step that fails"
    yield f"  network: {'yes' if is_online(mod) else 'none'}"
    if loose := [each.place for each in found if not each.pinned]:
        yield (
            f"  not pinned: {', '.join(loose[:_STEPS])}. What a build gets there may differ from "
            "day to day; the image on a Spark stays as it is once it is built"
        )


def _step(place: str, line: str, *, hashed: bool) -> Step | None:
    if _SAYS.match(line):
        return None
    urls = _URL.findall(line)
    if installed := _INSTALL.search(line):
        names, online, pinned = _packages(installed[1], line)
        pinned = pinned or "--require-hashes" in line
        how = "" if pinned else ", which nothing pins"
        return Step(place, line, f"installs {names}{how}", pinned, online)
    if _FETCH.search(line):
        pinned = hashed or (bool(urls) and all(_COMMIT.search(url) for url in urls))
        what = ", ".join(urls) or "what it names"
        how = "by commit or hash" if pinned else "with no hash"
        return Step(place, line, f"fetches {plain(what, _WIDTH)}, {how}", pinned, online=True)
    if _PASSED_OVER.search(line) and _CHANGE.search(line):
        return Step(place, line, "changes files of the image, and goes on if that fails")
    if _CHANGE.search(line) and not re.match(r"\s*(?:if|elif|\w+=)", line):
        return Step(place, line, "changes files of the image")
    if urls:
        return Step(place, line, f"names {', '.join(urls)}", pinned=True, online=True)
    return None


def _packages(words: str, line: str) -> tuple[str, bool, bool]:
    """Return what a command installs, whether it asks a network, and whether all is pinned."""
    try:
        parts = shlex.split(words.split("||")[0].split("&&")[0].split(";")[0], comments=True)
    except ValueError:
        parts = words.split()
    names = [each for each in parts if not each.startswith(("-", ">", "2>", "1>"))]
    local = [each for each in names if _LOCAL.fullmatch(each)]
    pinned = all(
        each in local or _PINNED.fullmatch(each) or _COMMIT.search(each) for each in names
    ) and bool(names)
    alone = len(local) == len(names) and _WITHOUT_INDEX.search(line) is not None
    return ", ".join(names) or "what it names", not alone, pinned


def _scripts(mod: ModFolder) -> list[str]:
    """Return run.sh, and the scripts that it runs, as far as it names them."""
    words = {
        word for _, line in _lines(mod, ENTRY) if _RUNS.search(line) for word in _WORD.findall(line)
    }
    # `$FOLDER/fix.py` and `$(dirname "$0")/fix.py` name it as well.
    named = {"/".join(word.split("/")[at:]) for word in words for at in range(word.count("/") + 1)}
    others = [path for path in mod.files if path.endswith((".sh", ".py")) and path in named]
    return [ENTRY, *(path for path in others if path != ENTRY)]


def _text(mod: ModFolder, path: str) -> str:
    return mod.files[path].content[:_LOOKED_AT].decode(errors="replace")


def _lines(mod: ModFolder, path: str) -> list[tuple[int, str]]:
    """Return the lines that are no comments, with their numbers; a line that goes on is one."""
    found: list[tuple[int, str]] = []
    parts: list[str] = []
    start = 0
    for number, line in enumerate([*_text(mod, path).split("\n"), ""], 1):
        start = start if parts else number
        parts.append(line.removesuffix("\\"))
        if not line.endswith("\\"):
            whole = " ".join("".join(parts).split())[:_LINE]
            if whole and not whole.startswith("#"):
                found.append((start, whole))
            parts = []
    return found


def _patched(content: bytes) -> str:
    """Return the files that a patch changes, after a colon; "" if it is none."""
    names = [*dict.fromkeys(_PATCHED.findall(content[:200_000].decode(errors="replace")))]
    names = [name for name in names if name != "/dev/null"]
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f": changes {', '.join(names[:_MOST])}{more}" if names else ""


def _size(count: int) -> str:
    return f"{count} bytes" if count < 1000 else size_text(count)
