"""The metrics of a Spark's host for Prometheus: GPU, engine, memory, disks."""

from collections.abc import Generator, Iterable, Sequence

from pyinfra import host
from pyinfra.api import StringCommand, deploy, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.facts import HostFact
from sparkwright.common.files import Entry, ManagedFile
from sparkwright.common.operations import differs, foresee, notice, unit_differs
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import EXPORTER_DEFAULTS, folder
from sparkwright.common.ports import METRICS_PORT
from sparkwright.common.render import unit_file
from sparkwright.declared.fleet.fabric_plan import FabricPlan
from sparkwright.insight.monitoring.node_exporter import (
    EXPORTER,
    PACKAGE,
    SOCKET,
    TIMER,
    ExporterState,
    exporter_defaults,
    exporter_script,
    parse_exporter,
)
from sparkwright.machine.host.operations.files import file_states, managed_files
from sparkwright.machine.host.operations.packages import install
from sparkwright.plan.release.programs import program_files
from sparkwright.run.target import target

# What each of the two starts.
_SERVICES = {TIMER: "spark-metrics.service", SOCKET: "fabric-metrics@.service"}


class Exporter(HostFact[ExporterState]):
    """The node exporter and our units beside it, in one command."""

    command = staticmethod(exporter_script)
    parse = staticmethod(parse_exporter)


def metrics_units(names: Iterable[str], root: str, plan: FabricPlan | None) -> list[ManagedFile]:
    """Return units of files/host/insight/monitoring."""
    values = {"root": root, "address": plan.addresses[0] if plan else "", "port": METRICS_PORT}
    return [unit_file(HOST_FILES / "insight" / "monitoring" / name, **values) for name in names]


@deploy("Metrics")
def apply() -> None:
    """Have a head tell of its host through its door, and a worker through its head's."""
    own = target()
    unit = (TIMER if own.is_head else SOCKET) if own.recipe_name else None
    names = (unit, _SERVICES[unit]) if unit else ()
    host_metrics(
        name="GPU, engine and host",
        root=own.root,
        unit=unit,
        programs=program_files(own.root),
        units=metrics_units(names, own.root, own.fabric),
    )


@operation()
def host_metrics(
    root: str, unit: str | None, programs: Sequence[Entry], units: Sequence[ManagedFile]
) -> Generator[PyinfraCommand]:
    """Have a Spark tell of itself: a head by a node exporter on loopback, a worker to its head.

    An exporter that was here before, or another program on its port, stays as it is.

    Args:
        unit: `TIMER` for a head, `SOCKET` for a worker; None for a Spark that serves nothing.
        units: The files of that unit and of the service that it starts.
    """
    defaults = ManagedFile(EXPORTER_DEFAULTS, exporter_defaults(root))
    of_exporter = [defaults] if unit == TIMER else []
    entries = [folder(root, "bin"), folder(root, "metrics"), *programs, *units]
    if unit:
        foresee(lambda: file_states([*entries, *of_exporter]))
    files = {EXPORTER: [EXPORTER_DEFAULTS], TIMER: [], SOCKET: []}
    if unit:
        files[unit] = [file.path for file in units]
    state = host.get_fact(Exporter, root=root, files=files)
    strays = [
        each
        for each in (TIMER, SOCKET)
        if each != unit and (state.units[each].active or state.units[each].enabled)
    ]
    for stray in strays:
        differs(stray, "stopped and disabled", "active or enabled")
    if strays:
        yield StringCommand("systemctl disable --quiet --now", *strays)
    elif unit is None:
        host.noop("it serves nothing, and tells nothing")
    if unit is None:
        return
    if of_exporter and state.foreign:
        of_exporter = []
        notice(
            f"{state.foreign}: that exporter is not changed. With "
            f"--collector.textfile.directory={root}/metrics it also exports GPU and engine "
            "metrics."
        )
    missing = bool(of_exporter) and not state.installed
    laid_down = list(managed_files._inner(entries=[*entries, *of_exporter]))
    if missing:
        differs(f"package {PACKAGE}", "installed", "not installed")
    watched = {EXPORTER: of_exporter} if of_exporter else {}
    watched[unit] = list(units)
    for each in watched:
        now = state.units[each]
        if not (each == EXPORTER and missing):
            unit_differs(each, active=now.active, enabled=now.enabled, outdated=now.outdated)

    # The settings come first: the package starts its program at once, on every address.
    yield from laid_down
    if missing:
        # Without what it recommends: collectors, and daemons that send mail.
        yield install(PACKAGE)
    written = {getattr(command, "dest", None) for command in laid_down}
    for each, configured_by in watched.items():
        now = state.units[each]
        changed = any(file.path in written for file in configured_by)
        if not now.enabled:
            yield StringCommand("systemctl enable --quiet", each)
        if changed or now.outdated or (each == EXPORTER and missing):
            yield StringCommand("systemctl daemon-reload && systemctl restart", each)
        elif not now.active:
            yield StringCommand("systemctl start", each)
