"""The deploys of the host: settings for months of serving, and the root folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyinfra.api import deploy

from sparkwright.common.files import Directory, Entry, ManagedFile
from sparkwright.common.part import Ask
from sparkwright.common.placed import EARLYOOM, GUARD, JOURNALD, SYSCTL, layout
from sparkwright.machine.host.operations.files import managed_files
from sparkwright.machine.host.operations.room import drop_in, room, watchdog
from sparkwright.machine.host.operations.services import engine_users, gpu_clock, service, sysctl
from sparkwright.machine.host.operations.system import ask_system, system_packages
from sparkwright.machine.host.state import ASK_WATCHDOG, ask_placed, ask_release_files
from sparkwright.run.target import Target, target


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what these steps ask of a Spark."""
    yield ask_placed(own.root)
    yield ASK_WATCHDOG
    yield ask_system(own)
    for seat in own.seats:
        if seat.release:
            yield ask_release_files(own.root, seat.release.id)


# Rates are journald's own. By itself, it also leaves 15 % of the disk free, up to 4 GiB.
_JOURNAL = "[Journal]\nStorage=persistent\nRateLimitIntervalSec=30s\nRateLimitBurst=10000\n"
# Seconds from a panic to the reboot; and a core that takes no interrupt for 10 s never will again.
# Soft lock-ups, hung tasks and oopses are no reason: drivers under load have some that pass, and
# those that hold up process 1 are the watchdog's.
_PANIC = {"kernel.panic": "10", "kernel.hardlockup_panic": "1"}


@deploy("Host")
def apply() -> None:
    """Keep the host alive: journal, memory, room, watchdog, kernel, GPU clock; hold packages."""
    settings = target().settings
    journal = f"{_JOURNAL}SystemMaxUse={settings.journal_max_use}\n"
    entries: list[Entry] = [Directory(str(Path(JOURNALD).parent)), ManagedFile(JOURNALD, journal)]
    service(name="Journal of bounded size", unit="systemd-journald.service", entries=entries)
    guard = ManagedFile(EARLYOOM, f'EARLYOOM_ARGS="{settings.earlyoom_arguments}"\n')
    entries = [guard, *drop_in(GUARD)]
    service(name="Memory guard", unit=GUARD, package="earlyoom", entries=entries)
    room(name="Room for the host")
    watchdog(name="Watchdog")
    values = {"vm.swappiness": str(settings.swappiness)} | _PANIC
    sysctl(name="Kernel parameters", path=SYSCTL, values=values, optional=[*_PANIC])
    gpu_clock(name="GPU clock")
    system_packages(name="System packages")


@deploy("Host")
def users() -> None:
    """Make the users of engines; in a group, the guard of its fabric has made them."""
    if not target().is_group:
        engine_users(name="Users of engines")


@deploy("Layout")
def folders() -> None:
    """Make the root folder and the folders in it. They are root's, who runs programs there."""
    managed_files(name="Folders", entries=layout(target().root))
