"""Installs a release and the programs that switch to it; other releases stay unchanged."""

import shlex
from collections.abc import Generator, Sequence

from pyinfra.api import StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.files import Entry
from sparkwright.common.operations import Refused
from sparkwright.machine.host.operations.files import managed_files


@operation()
def programs_and_release(root: str, entries: Sequence[Entry]) -> Generator[PyinfraCommand]:
    """Make every entry current, as `managed_files` does, and delete superseded programs."""
    changes = list(managed_files._inner(entries=entries))
    yield from changes
    # A failing operation must change nothing.
    if changes and not isinstance(changes[0], Refused):
        yield StringCommand(superseded_script(root))


def superseded_script(root: str) -> str:
    """Return the POSIX shell script that deletes programs which `sparkwright-host` replaced.

    systemd reads the new unit files first: an engine that ends meanwhile is started by these.
    """
    return f"""\
cd {shlex.quote(root)}/bin && systemctl daemon-reload || exit
for file in sparkwright-host-*; do
  [ "$file" = "$(readlink sparkwright-host)" ] || rm -f "$file"
done"""
