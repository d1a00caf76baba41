"""What a host needs to serve for months: bounded logs, a memory guard, a clock that is right."""

from pyinfra import host
from pyinfra.api import deploy

from deploys.operations.services import clock, service, sysctl
from deploys.plan.files import Directory, ManagedFile

_JOURNALD = "/etc/systemd/journald.conf.d"


@deploy("Host")
def apply() -> None:
    """Bound the journal, guard the memory, keep the engine out of swap, set the clock."""
    service(
        name="Journal of bounded size",
        unit="systemd-journald.service",
        entries=[
            Directory(_JOURNALD),
            ManagedFile(
                f"{_JOURNALD}/sparkwright.conf",
                f"[Journal]\nStorage=persistent\nSystemMaxUse={host.data.journal_max_use}\n",
            ),
        ],
    )
    service(
        name="Memory guard",
        unit="earlyoom.service",
        package="earlyoom",
        entries=[
            ManagedFile(
                "/etc/default/earlyoom", f'EARLYOOM_ARGS="{host.data.earlyoom_arguments}"\n'
            )
        ],
    )
    sysctl(
        name="Swappiness",
        path="/etc/sysctl.d/90-sparkwright.conf",
        values={"vm.swappiness": str(host.data.swappiness)},
    )
    clock(name="Time synchronisation")
