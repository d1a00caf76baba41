"""The operation that installs the guard of engines, a packet filter."""

from collections.abc import Generator, Sequence

from pyinfra import host
from pyinfra.api import StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.files import ManagedFile
from sparkwright.common.operations import differs, foresee
from sparkwright.host.facts import Unread
from sparkwright.host.operations.files import managed_files


@operation()
def guarded(entries: Sequence[ManagedFile]) -> Generator[PyinfraCommand]:
    """Install the files of the slices, and have systemd read them.

    systemd sets up a container's filter before it starts the container, and replaces it when it
    reads the files anew: there is no moment without a filter.
    """
    units = [entry.path.rpartition("/")[2] for entry in entries]
    foresee(lambda: host.get_fact(Unread, units=units))
    changes = list(managed_files._inner(entries=entries))
    unread = host.get_fact(Unread, units=units)
    for unit in [] if changes else unread:
        differs(unit, "as in its file", "an older version")
    yield from changes
    if changes or unread:
        yield StringCommand("systemctl daemon-reload")
