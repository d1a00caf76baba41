"""The host's settings for months of serving: bounded logs, a memory guard, right clocks."""

from pathlib import Path

from pyinfra.api import deploy

from deploys.operations.gpu_clock import gpu_clock
from deploys.operations.services import clock, service, sysctl
from deploys.plan.files import Directory, ManagedFile
from deploys.plan.placed import EARLYOOM, JOURNALD, SYSCTL
from deploys.plan.render import unit_file
from deploys.target import target

_GPU_CLOCK = Path(__file__).parents[2] / "files" / "gpu" / "gpu-clock.service"


@deploy("Host")
def apply() -> None:
    """Bound the journal, guard the memory, keep the engine out of swap, set the clocks."""
    settings = target().settings
    limit = settings.gpu_clock_max_mhz
    service(
        name="Journal of bounded size",
        unit="systemd-journald.service",
        entries=[
            Directory(str(Path(JOURNALD).parent)),
            ManagedFile(
                JOURNALD,
                f"[Journal]\nStorage=persistent\nSystemMaxUse={settings.journal_max_use}\n",
            ),
        ],
    )
    service(
        name="Memory guard",
        unit="earlyoom.service",
        package="earlyoom",
        entries=[
            ManagedFile(EARLYOOM, f'EARLYOOM_ARGS="{settings.earlyoom_arguments}"\n'),
        ],
    )
    sysctl(
        name="Swappiness",
        path=SYSCTL,
        values={"vm.swappiness": str(settings.swappiness)},
    )
    clock(name="Time synchronisation")
    gpu_clock(
        name="GPU clock",
        unit=unit_file(_GPU_CLOCK, root=settings.root, megahertz=limit) if limit else None,
    )
