"""The host metrics of a Spark: on a head, on a worker, and on neither."""

from collections.abc import Generator, Sequence

from pyinfra import host
from pyinfra.api import StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.files import Entry, ManagedFile
from sparkwright.common.operations import differs, foresee, notice, unit_differs
from sparkwright.common.placed import EXPORTER_DEFAULTS, folder
from sparkwright.host.operations.files import file_states, managed_files
from sparkwright.host.operations.packages import install
from sparkwright.host.units import UnitState
from sparkwright.monitoring.facts import Exporter
from sparkwright.monitoring.node_exporter import (
    EXPORTER,
    PACKAGE,
    SOCKET,
    TIMER,
    ExporterState,
    exporter_defaults,
)


@operation()
def host_metrics(
    root: str, unit: str | None, programs: Sequence[Entry], units: Sequence[ManagedFile]
) -> Generator[PyinfraCommand]:
    """Have a Spark tell of itself: a head by a node exporter on loopback, a worker to its head.

    An exporter that was here before, or another program on its port, stays as it is.

    Args:
        unit: `TIMER` for a head, `SOCKET` for a worker; None for a Spark that serves nothing.
        programs: those of a Spark.
        units: the files of that unit and of the service that it starts.
    """
    files = {EXPORTER: [EXPORTER_DEFAULTS], TIMER: [], SOCKET: []}
    if unit:
        files[unit] = [file.path for file in units]
    of_exporter = [ManagedFile(EXPORTER_DEFAULTS, exporter_defaults(root))] if unit == TIMER else []
    entries = [folder(root, "bin"), folder(root, "metrics"), *programs, *units]
    if unit:
        foresee(lambda: file_states([*entries, *of_exporter]))
    state = host.get_fact(Exporter, root=root, files=files)
    strays = [each for each in (TIMER, SOCKET) if each != unit and _there(state.units[each])]
    if unit is None and not strays:
        host.noop("it serves nothing, and tells nothing")
        return
    for stray in strays:
        differs(stray, "stopped and disabled", "active or enabled")
    if strays:
        yield StringCommand("systemctl disable --quiet --now", *strays)
    if unit is None:
        return
    if of_exporter and state.foreign:
        of_exporter = []
        notice(
            f"{state.foreign}: that exporter is not changed. With "
            f"--collector.textfile.directory={root}/metrics it also exports GPU and engine "
            "metrics."
        )
    laid_down = list(managed_files._inner(entries=[*entries, *of_exporter]))
    changed = [file for file in units if _is_written(laid_down, file.path)]
    if of_exporter and not state.installed:
        differs(f"package {PACKAGE}", "installed", "not installed")
    for each in (unit, *([EXPORTER] if of_exporter and state.installed else ())):
        now = state.units[each]
        unit_differs(each, active=now.active, enabled=now.enabled, outdated=now.outdated)

    # The settings come first: the package starts its program at once, on every address.
    yield from laid_down
    if of_exporter:
        yield from _exporter(state, _is_written(laid_down, EXPORTER_DEFAULTS))
    yield from _in_force(unit, state.units[unit], bool(changed))


def _there(state: UnitState) -> bool:
    return state.active or state.enabled


def _is_written(commands: Sequence[PyinfraCommand], path: str) -> bool:
    return any(getattr(command, "dest", None) == path for command in commands)


def _exporter(state: ExporterState, changed: bool) -> Generator[PyinfraCommand]:
    """Have the exporter run with its settings.

    Without what the package recommends: collectors, and daemons that send mail.
    """
    if not state.installed:
        yield install(PACKAGE)
    yield from _in_force(EXPORTER, state.units[EXPORTER], changed or not state.installed)


def _in_force(unit: str, state: UnitState, changed: bool) -> Generator[StringCommand]:
    if not state.enabled:
        yield StringCommand("systemctl enable --quiet", unit)
    if changed or state.outdated:
        yield StringCommand("systemctl daemon-reload && systemctl restart", unit)
    elif not state.active:
        yield StringCommand("systemctl start", unit)
