"""The facts of files and of units: many paths in one command, and one unit at a time."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyinfra.api import QuoteString, StringCommand
from pyinfra.api.exceptions import FactProcessError

from sparkwright.common.facts import HostFact
from sparkwright.common.files import FileState, Kind

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


@dataclass(frozen=True)
class ServiceState:
    """One unit.

    Attributes:
        known: systemd has such a unit.
        enabled: starts at boot, by its own link or because another unit wants it (static).
        outdated: one of its files changed after it had started (to the second).
    """

    known: bool
    active: bool
    enabled: bool
    outdated: bool


class Service(HostFact[ServiceState]):
    """The state of a unit in relation to the files that configure it."""

    def command(self, unit: str, files: Sequence[str]) -> str:
        paths = " ".join(map(shlex.quote, files))
        return f"""
unit={shlex.quote(unit)}
systemctl show --property=LoadState,ActiveState,UnitFileState,ActiveEnterTimestamp \\
  --timestamp=unix "$unit"
echo "Changed=$(stat --format=%Y -- {paths} 2>/dev/null | sort -n | tail -n 1)\""""

    def parse(self, output: list[str]) -> ServiceState:
        values = dict(line.split("=", 1) for line in output)
        # Without systemd there is no unit.
        state = values.get
        started = state("ActiveEnterTimestamp", "").removeprefix("@")
        return ServiceState(
            known=state("LoadState") == "loaded",
            active=state("ActiveState") == "active",
            enabled=state("UnitFileState") in ("enabled", "static", "alias", "indirect"),
            outdated=int(values["Changed"] or 0) > int(started or 0),
        )


class Unread(HostFact[list[str]]):
    """The units of which systemd has read another file than is there, or none.

    Args:
        units: their names; each has a file.
    """

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


class ClockSync(HostFact[bool]):
    """Tell whether the clock is kept by NTP, or is another's, as in a container."""

    def command(self) -> str:
        return (
            "systemd-detect-virt --quiet --container && echo Container=yes; "
            "timedatectl show --property=NTP --property=CanNTP 2>/dev/null || true"
        )

    def parse(self, output: list[str]) -> bool:
        values = dict(line.split("=", 1) for line in output)
        kept = values.get("CanNTP") != "yes" or values.get("NTP") == "yes"
        return kept or "Container" in values

    @staticmethod
    def default() -> bool:
        return True
