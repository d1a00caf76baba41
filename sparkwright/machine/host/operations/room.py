"""Operations by which a host outlives what runs on it: room for its own services, the watchdog."""

from collections.abc import Generator

from pyinfra import host
from pyinfra.api import QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.files import Directory, Entry, ManagedFile
from sparkwright.common.operations import differs, notice
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import ROOM, SYSTEMD, WATCHDOG, WATCHDOG_MODULE
from sparkwright.machine.host.operations.files import managed_files, path_states, placed
from sparkwright.machine.host.operations.services import read_anew
from sparkwright.machine.host.state import ASK_WATCHDOG
from sparkwright.run.state import read
from sparkwright.run.target import target


def drop_in(unit: str) -> list[Entry]:
    """Return what we add to a unit of the system's, and its folder."""
    text = (HOST_FILES / "machine/room" / f"{unit}.conf").read_text("utf-8")
    folder = Directory(f"{SYSTEMD}/{unit}.d")
    return [folder, ManagedFile(f"{folder.path}/sparkwright.conf", text)]


@operation()
def room() -> Generator[PyinfraCommand]:
    """Keep memory and processors for sshd, systemd, journald and our services; bound logins."""
    known = placed().units
    unread = [unit for unit in ROOM if unit in known and known[unit].outdated]
    yield from read_anew([entry for unit in ROOM for entry in drop_in(unit)], unread)


@operation()
def watchdog() -> Generator[PyinfraCommand]:
    """Have systemd serve the machine's watchdog; leave alone one that its owner has set.

    Without a setting, or a watchdog, ours is removed. A reload of systemd (v255) suffices, which
    opens a device that comes later when it would ping.
    """
    seconds, found = target().settings.watchdog_seconds, read(host, ASK_WATCHDOG)
    if seconds and found.set_by:
        notice(f"The watchdog is as {found.set_by} says: watchdog_seconds is left out.")
    serves = bool(seconds and not found.set_by and (found.device or found.offered))
    text = f"[Manager]\nRuntimeWatchdogSec={seconds}\nRebootWatchdogSec=10min\n"
    # Firmware of a GB10 starts its watchdog before the system, and resets after 20 minutes what has
    # no driver for it (timothystewart6/ubuntu-gb10).
    wanted = {WATCHDOG: text} if serves else {}
    wanted |= {WATCHDOG_MODULE: "sbsa_gwdt\n"} if serves and found.offered else {}
    superfluous = [path for path in path_states([WATCHDOG, WATCHDOG_MODULE]) if path not in wanted]
    for path in superfluous:
        differs(path, "nothing", "a file")
    files = [
        (Directory(path.rpartition("/")[0]), ManagedFile(path, wanted[path])) for path in wanted
    ]
    changes = list(managed_files._inner(entries=[entry for pair in files for entry in pair]))
    late = serves and found.seconds not in (None, seconds)
    if late and not changes:
        differs("systemd's RuntimeWatchdogSec", f"{seconds} s", f"{found.seconds} s")
    yield from changes
    if superfluous:
        yield StringCommand("rm -f", *map(QuoteString, superfluous))
    if changes and serves and not found.device:
        yield StringCommand("modprobe sbsa_gwdt || true")
    if changes or superfluous or late:
        yield StringCommand("systemctl daemon-reload")
