"""What a Spark's host is: metrics for Prometheus (GPU, engine, memory, disks), its recorder."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, ClassVar

from pyinfra import host
from pyinfra.api import StringCommand, deploy, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.files import ManagedFile
from sparkwright.common.operations import differs, notice
from sparkwright.common.part import Ask, Part
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import EXPORTER, EXPORTER_DEFAULTS, folder
from sparkwright.common.ports import EXPORTER_PORT, METRICS_PORT
from sparkwright.common.render import unit_file
from sparkwright.declared.fleet.fabric_plan import FabricPlan
from sparkwright.machine.host.operations.files import unit_state
from sparkwright.machine.host.operations.services import service
from sparkwright.plan.release.programs import program_files
from sparkwright.run.state import read
from sparkwright.run.target import Target, target

# A head writes for its exporter; a worker answers its head, on the fabric.
TIMER, SOCKET = "spark-metrics.timer", "fabric-metrics.socket"
# Scrapes at once. Each that hangs keeps its place for ever: more of them get a 503 at once.
_SCRAPES = 4
# Writes what the Spark was, second by second, for the doctor after a hard end.
RECORDER = "flight-recorder.service"
_FOLDERS = ("bin", "metrics", "state")
# What timer and socket start.
_SERVICES = {TIMER: "spark-metrics.service", SOCKET: "fabric-metrics@.service"}


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what the steps below read."""
    if own.is_head:
        yield Exporter.ask(root=own.root)


def metrics_units(names: Iterable[str], root: str, plan: FabricPlan | None) -> list[ManagedFile]:
    """Return units of files/host/insight/monitoring."""
    values = {"root": root, "address": plan.addresses[0] if plan else "", "port": METRICS_PORT}
    values["pair"] = f" {plan.addresses[0]} {plan.peer_addresses[0]}" if plan else ""
    return [unit_file(HOST_FILES / "insight" / "monitoring" / name, **values) for name in names]


@deploy("Metrics")
def apply() -> None:
    """Have a head tell of its host through its door, and a worker through its head's."""
    own = target()
    unit = (TIMER if own.is_head else SOCKET) if own.recipe_name else None
    unneeded = [each for each in _SERVICES if each != unit] + ([] if unit else [RECORDER])
    stopped(name="None of another rank", units=unneeded)
    if unit:
        placed = [*(folder(own.root, each) for each in _FOLDERS), *program_files(own.root)]
        units = metrics_units((unit, _SERVICES[unit]), own.root, own.fabric)
        service(name="GPU and engine", unit=unit, entries=[*placed, *units])
        units = metrics_units([RECORDER], own.root, own.fabric)
        service(name="Flight recorder", unit=RECORDER, entries=[*placed, *units])
    if unit == TIMER:
        node_exporter(name="Node exporter", root=own.root)


@operation()
def stopped(units: Sequence[str]) -> Generator[StringCommand]:
    """Stop and disable units that a Spark needs no more."""
    states = {unit: unit_state(unit) for unit in units}
    strays = [unit for unit, state in states.items() if state.active or state.enabled]
    for stray in strays:
        differs(stray, "stopped and disabled", "active or enabled")
    if strays:
        yield StringCommand("systemctl disable --quiet --now", *strays)
    else:
        host.noop("they are stopped")


@operation()
def node_exporter(root: str) -> Generator[PyinfraCommand]:
    """Have a head tell of its host by a node exporter on loopback, which tells `metrics` as well.

    An exporter that was here before, or another program on its port, stays as it is.
    """
    defaults = ManagedFile(EXPORTER_DEFAULTS, exporter_defaults(root))
    if foreign := read(host, Exporter.ask(root=root)).foreign:
        notice(
            f"{foreign}: that exporter is not changed. With "
            f"--collector.textfile.directory={root}/metrics it also exports GPU and engine metrics."
        )
        host.noop("it is not ours")
    else:
        yield from service._inner(unit=f"{EXPORTER}.service", entries=[defaults], package=EXPORTER)


def exporter_defaults(root: str) -> str:
    """Return the settings of the exporter's package.

    On a GB10 a read of cpufreq may never return (prometheus/node_exporter#3791).
    """
    options = (
        f"--web.listen-address=127.0.0.1:{EXPORTER_PORT}",
        f"--web.max-requests={_SCRAPES}",
        "--no-collector.cpufreq",
        f"--collector.textfile.directory={root}/metrics",
    )
    return (
        "# Of sparkwright/monitoring. The door of the replica lets Prometheus in.\n"
        f'ARGS="{" ".join(options)}"\n'
    )


class Exporter(Part):
    """The node exporter's package, whether we installed it, and another program on its port."""

    part: ClassVar = "sockets.exporter"

    holder: str | None
    installed: bool
    ours: bool

    @property
    def foreign(self) -> str | None:
        """Whose exporter it is, for people, where it is to be left alone."""
        if self.holder:
            return f"port {EXPORTER_PORT} is held by {self.holder}"
        return f"{EXPORTER} was here before" if self.installed and not self.ours else None
