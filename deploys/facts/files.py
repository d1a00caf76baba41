"""The states of many paths, in one command."""

from collections.abc import Sequence
from typing import get_args

from pyinfra.api import QuoteString, StringCommand
from pyinfra.api.exceptions import FactProcessError

from deploys.facts.host_fact import HostFact
from deploys.plan.files import FileState, Kind

# Prints one line a path: kind, user, group, mode, detail, path, parted by tabs.
_SCRIPT = r"""; do
if s=$(LC_ALL=C stat $follow --printf '%F\t%U\t%G\t%a' -- "$p" 2>&1); then
  owner=${s#*"$tab"}; detail=
  case $s in
    regular*) kind=file
      detail=$(sha256sum 2>&1 < "$p") || { kind=unreadable; detail='permission denied'; } ;;
    directory*) kind=directory ;;
    symbolic*) kind=link; detail=$(readlink -- "$p") ;;
    *) kind=other ;;
  esac
else
  owner="$tab$tab"; detail=${s##*: }
  case $detail in 'No such file or directory') kind=absent ;; *) kind=unreadable ;; esac
fi
printf '%s\t%s\t%s\t%s\n' "$kind" "$owner" "${detail%  -}" "$p"
done"""


class FileStates(HostFact[dict[str, FileState]]):
    """The state of every path: absent and unreadable differ.

    Args:
        paths: files and directories; a link counts as what it points to.
        links: symbolic links themselves.
    """

    default = dict

    def command(self, paths: Sequence[str], links: Sequence[str] = ()) -> StringCommand:
        """Return one command for all paths; it exits 0 whatever it finds."""
        loops: list[str | QuoteString] = ["tab=$(printf '\\t');"]
        for follow, group in (("-L", paths), ("", links)):
            if group:
                loops += [f"follow={follow}; for p in", *map(QuoteString, group), _SCRIPT, ";"]
        return StringCommand(*loops, "true")

    def parse(self, output: list[str]) -> dict[str, FileState]:
        """Return the states by path."""
        states = {}
        for line in output:
            kind, user, group, mode, detail, path = _fields(line)
            states[path] = FileState(kind, user, group, mode, detail)
        return states


def _fields(line: str) -> tuple[Kind, str, str, str, str, str]:
    fields = line.split("\t", 5)
    for kind in get_args(Kind):
        if len(fields) == 6 and fields[0] == kind:
            return (kind, fields[1], fields[2], fields[3], fields[4], fields[5])
    raise FactProcessError(f"unexpected line from the host: {line!r}")
