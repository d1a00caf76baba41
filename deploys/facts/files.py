"""The states of many paths, in one command."""

import re
from collections.abc import Sequence
from dataclasses import replace

from pyinfra.api import QuoteString, StringCommand
from pyinfra.api.exceptions import FactProcessError

from deploys.facts.host_fact import HostFact
from deploys.plan.files import FileState, Kind

# Prints a line for each path, its fields parted by tabs: what `stat` says, or why it says nothing.
_STAT = r"""
stat $follow --printf 'stat\t%F\t%U\t%G\t%a\t%n\n' -- "$@" 2>/dev/null ||
for p; do
  [ -e "$p" ] || s=$(stat $follow -- "$p" 2>&1 >/dev/null) ||
    printf 'none\t%s\t%s\n' "${s##*: }" "$p"
done
"""
# Prints a line for each regular file: SHA-256, two spaces, path.
_HASH = r"""
for p; do shift; [ ! -f "$p" ] || set -- "$@" "$p"; done
[ $# = 0 ] || sha256sum -- "$@" 2>/dev/null
"""
_LINK = r"""
for p; do [ ! -L "$p" ] || printf 'link\t%s\t%s\n' "$(readlink -- "$p")" "$p"; done
"""
_KINDS: dict[str, Kind] = {"regular": "file", "directory": "directory", "symbolic": "link"}
_HASHED = re.compile("(?P<hash>[0-9a-f]{64})  (?P<path>.*)")
_ABSENT = "No such file or directory"


class FileStates(HostFact[dict[str, FileState]]):
    """The state of every path: absent and unreadable differ.

    Args:
        paths: files and directories; a link counts as what it points to.
        links: symbolic links themselves.
    """

    default = dict

    def command(self, paths: Sequence[str], links: Sequence[str] = ()) -> StringCommand:
        """Return one command for all paths; it exits 0 whatever it finds."""
        words: list[str | QuoteString] = ["export LC_ALL=C;"]
        for follow, group, detail in (("-L", paths, _HASH), ("", links, _LINK)):
            if group:
                words += [f"follow={follow}; set --", *map(QuoteString, group), _STAT, detail]
        return StringCommand(*words, "true")

    def parse(self, output: list[str]) -> dict[str, FileState]:
        """Return the states by path."""
        states: dict[str, FileState] = {}
        details: dict[str, str] = {}
        for line in output:
            match line.split("\t"):
                case ["stat", kind, user, group, mode, path]:
                    known = _KINDS.get(kind.partition(" ")[0], "other")
                    states[path] = FileState(known, user, group, mode)
                case ["none", reason, path]:
                    absent = reason == _ABSENT
                    states[path] = FileState("absent" if absent else "unreadable", detail=reason)
                case ["link", target, path]:
                    details[path] = target
                case [text] if found := _HASHED.fullmatch(text):
                    details[found["path"]] = found["hash"]
                case _:
                    raise FactProcessError(f"unexpected line from the host: {line!r}")
        return {path: _whole(state, details.get(path)) for path, state in states.items()}


def _whole(state: FileState, detail: str | None) -> FileState:
    """Return a state with what else was said of its path."""
    if state.kind not in ("file", "link"):
        return state
    if detail is None:
        return replace(state, kind="unreadable", detail="permission denied")
    return replace(state, detail=detail)
