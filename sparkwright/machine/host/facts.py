"""The facts of files, units, kernel parameters and accounts."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

from pyinfra.api import QuoteString, StringCommand
from pyinfra.api.exceptions import FactProcessError

from sparkwright.common.facts import HostFact
from sparkwright.common.files import FileState, Kind
from sparkwright.machine.host.units import UnitState

# Prints a line for each path, with fields separated by tabs: the output of `stat`, or its error.
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


class Accounts(HostFact[list[str]]):
    """The users that a host has, among some names."""

    def command(self, names: Sequence[str]) -> str:
        return f"getent passwd {shlex.join(names)} | cut -d: -f1; echo read:"

    def parse(self, output: list[str]) -> list[str]:
        return output[:-1]


class FileStates(HostFact[dict[str, FileState]]):
    """The state of paths, whose links are followed, and of links; absent is not unreadable."""

    default = dict

    def command(self, paths: Sequence[str], links: Sequence[str] = ()) -> StringCommand:
        words: list[str | QuoteString] = ["export LC_ALL=C;"]
        for follow, group, detail in (("-L", paths, _HASH), ("", links, _LINK)):
            if group:
                words += [f"follow={follow}; set --", *map(QuoteString, group), _STAT, detail]
        return StringCommand(*words, "true")

    def parse(self, output: list[str]) -> dict[str, FileState]:
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
        return {path: _detailed(state, details.get(path)) for path, state in states.items()}


def _detailed(state: FileState, detail: str | None) -> FileState:
    """Return the state of a file or link with its hash or target."""
    if state.kind not in ("file", "link"):
        return state
    if detail is None:
        return replace(state, kind="unreadable", detail="permission denied")
    return replace(state, detail=detail)


class Service(HostFact[UnitState]):
    """The state of a unit in relation to the files that configure it."""

    def command(self, unit: str, files: Sequence[str]) -> str:
        paths = " ".join(map(shlex.quote, files))
        return f"""
unit={shlex.quote(unit)}
systemctl show --property=LoadState,ActiveState,UnitFileState,ActiveEnterTimestamp \\
  --timestamp=unix "$unit"
echo Changed=
stat --format=Changed=%Y -- {paths} 2>/dev/null
true"""

    def parse(self, output: list[str]) -> UnitState:
        pairs = [line.split("=", 1) for line in output]
        values, changed = dict(pairs), [int(at or 0) for key, at in pairs if key == "Changed"]
        # Without systemd all of its values are missing.
        started = values.get("ActiveEnterTimestamp", "").removeprefix("@")
        return UnitState(
            active=values.get("ActiveState") == "active",
            # Another unit wants a static one.
            enabled=values.get("UnitFileState") in ("enabled", "static", "alias", "indirect"),
            outdated=max(changed, default=0) > int(started or 0),
            known=values.get("LoadState") == "loaded",
        )


class Unread(HostFact[list[str]]):
    """The units whose present file systemd has not read."""

    default = list

    def command(self, units: Sequence[str]) -> str:
        names = " ".join(map(shlex.quote, units))
        return (
            f"for unit in {names}; do "
            'systemctl show --property=NeedDaemonReload,FragmentPath "$unit" | '
            'grep -qx -e NeedDaemonReload=yes -e FragmentPath= && echo "$unit"; done; true'
        )

    def parse(self, output: list[str]) -> list[str]:
        return output


class Sysctls(HostFact[dict[str, str]]):
    """The values of kernel parameters; one that the kernel does not have is missing."""

    default = dict

    def command(self, keys: Sequence[str]) -> str:
        return f"sysctl {' '.join(map(shlex.quote, keys))} 2>/dev/null || true"

    def parse(self, output: list[str]) -> dict[str, str]:
        pairs = (line.partition("=") for line in output)
        return {key.strip(): value.strip() for key, _, value in pairs}
