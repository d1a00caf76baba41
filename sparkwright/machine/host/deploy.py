"""The deploys of the host: settings for months of serving, and the root folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyinfra.api import deploy

from sparkwright.common.files import Directory, ManagedFile
from sparkwright.common.operations import planning
from sparkwright.common.part import Ask
from sparkwright.common.placed import EARLYOOM, JOURNALD, SYSCTL, layout
from sparkwright.machine.host.operations.files import managed_files
from sparkwright.machine.host.operations.services import engine_users, gpu_clock, service, sysctl
from sparkwright.machine.host.operations.system import System, system_packages
from sparkwright.machine.host.state import ask_placed, ask_release_files
from sparkwright.run.target import Target, target


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what these steps ask of a Spark; of apt, which takes seconds, only for a plan."""
    yield ask_placed(own.root)
    yield System.ask(root=own.root, apt=planning())
    for seat in own.seats:
        if seat.release:
            yield ask_release_files(own.root, seat.release.id)


@deploy("Host")
def apply() -> None:
    """Bound journal, memory, swap and the GPU's clock; hold the system's packages if declared."""
    settings = target().settings
    journal = f"[Journal]\nStorage=persistent\nSystemMaxUse={settings.journal_max_use}\n"
    service(
        name="Journal of bounded size",
        unit="systemd-journald.service",
        entries=[Directory(str(Path(JOURNALD).parent)), ManagedFile(JOURNALD, journal)],
    )
    guard = ManagedFile(EARLYOOM, f'EARLYOOM_ARGS="{settings.earlyoom_arguments}"\n')
    service(name="Memory guard", unit="earlyoom.service", package="earlyoom", entries=[guard])
    sysctl(name="Swappiness", path=SYSCTL, values={"vm.swappiness": str(settings.swappiness)})
    gpu_clock(name="GPU clock")
    system_packages(name="System packages")


@deploy("Host")
def users() -> None:
    """Make the users of engines; on a pair, the guard of its fabric has made them."""
    if not target().is_pair:
        engine_users(name="Users of engines")


@deploy("Layout")
def folders() -> None:
    """Make the root folder and the folders in it. They are root's, who runs programs there."""
    managed_files(name="Folders", entries=layout(target().root))
