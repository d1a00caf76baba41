"""The host's settings for months of serving: bounded logs, a memory guard, right clocks."""

from pathlib import Path

from pyinfra import host
from pyinfra.api import deploy

from deploys.operations.gpu_clock import gpu_clock
from deploys.operations.services import clock, service, sysctl
from deploys.plan.files import Directory, ManagedFile
from deploys.plan.gpu import clock_limit
from deploys.plan.placed import EARLYOOM, JOURNALD, SYSCTL
from deploys.plan.render import unit_file
from deploys.steps.context import bad_input

_GPU_CLOCK = Path(__file__).parents[2] / "files" / "gpu" / "gpu-clock.service"


@deploy("Host")
def apply() -> None:
    """Bound the journal, guard the memory, keep the engine out of swap, set the clocks."""
    with bad_input():
        limit = clock_limit(host.data.dict())
    service(
        name="Journal of bounded size",
        unit="systemd-journald.service",
        entries=[
            Directory(str(Path(JOURNALD).parent)),
            ManagedFile(
                JOURNALD,
                f"[Journal]\nStorage=persistent\nSystemMaxUse={host.data.journal_max_use}\n",
            ),
        ],
    )
    service(
        name="Memory guard",
        unit="earlyoom.service",
        package="earlyoom",
        entries=[
            ManagedFile(EARLYOOM, f'EARLYOOM_ARGS="{host.data.earlyoom_arguments}"\n'),
        ],
    )
    sysctl(
        name="Swappiness",
        path=SYSCTL,
        values={"vm.swappiness": str(host.data.swappiness)},
    )
    clock(name="Time synchronisation")
    gpu_clock(
        name="GPU clock",
        unit=unit_file(_GPU_CLOCK, root=host.data.root, megahertz=limit) if limit else None,
    )
