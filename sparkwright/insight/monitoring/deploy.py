"""What a Spark tells: metrics of its host, for Prometheus, and notices, to its owner's webhook."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pyinfra import host, logger
from pyinfra.api import (
    FunctionCommand,
    HiddenValue,
    Host,
    QuoteString,
    State,
    StringCommand,
    deploy,
    operation,
)
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.errors import PlanError
from sparkwright.common.files import Directory, ManagedFile
from sparkwright.common.local_file import check_private, read_text
from sparkwright.common.operations import differs, notice, run_now
from sparkwright.common.part import Ask, Part
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import EXPORTER, EXPORTER_DEFAULTS, folder
from sparkwright.common.ports import EXPORTER_PORT, METRICS_PORT
from sparkwright.common.render import unit_file
from sparkwright.common.terminal import plain
from sparkwright.declared.fleet.fabric_plan import FabricPlan
from sparkwright.declared.fleet.setting_values import WEBHOOK
from sparkwright.door.deploy import certificate_of
from sparkwright.machine.host.operations.files import secret_file, unit_state
from sparkwright.machine.host.operations.services import service
from sparkwright.plan.release.programs import program_files
from sparkwright.run.state import read
from sparkwright.run.target import Target, bad_input, target

# A head writes for its exporter; a worker answers its head, on the fabric.
TIMER, SOCKET = "spark-metrics.timer", "fabric-metrics.socket"
# Scrapes at once. Each that hangs keeps its place for ever: more of them get a 503 at once.
_SCRAPES = 4
# What timer and socket start.
_SERVICES = {TIMER: "spark-metrics.service", SOCKET: "fabric-metrics@.service"}
NOTICES = ("notify.timer", "notify.service")


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what the steps below read."""
    if own.is_head:
        yield Exporter.ask(root=own.root)


def metrics_units(
    names: Iterable[str], root: str, plan: FabricPlan | None, **values: Any
) -> list[ManagedFile]:
    """Return units of files/host/insight/monitoring."""
    values |= {"root": root, "address": plan.addresses[0] if plan else "", "port": METRICS_PORT}
    return [unit_file(HOST_FILES / "insight" / "monitoring" / name, **values) for name in names]


@deploy("Metrics")
def apply() -> None:
    """Have a head tell of its host through its door, a worker through its head's, and notices."""
    own = target()
    unit = (TIMER if own.is_head else SOCKET) if own.recipe_name else None
    with bad_input():
        address = webhook(own.settings.notify)
    others = [each for each in _SERVICES if each != unit] + ([] if address else [NOTICES[0]])
    stopped(name="None of another rank", units=others)
    text = HiddenValue(f"{address}\n") if address else None
    secret_file(name="Webhook", path=f"{own.root}/secrets/webhook", content=text)
    if address:
        doors = ((each, certificate_of(each)) for each in own.seats if each.replica)
        seats = [
            f"{each.replica}={each.seat}={found.ends.timestamp() if found else 0:.0f}"
            for each, found in doors
        ]
        values = {"spark": own.spark, "seats": seats, "proxy": own.settings.proxy_variables}
        service(
            name="Notices",
            unit=NOTICES[0],
            entries=[
                *(folder(own.root, "bin"), Directory(f"{own.root}/state/notify")),
                *program_files(own.root),
                *metrics_units(NOTICES, own.root, None, **values),
            ],
        )
    if unit:
        service(
            name="GPU and engine",
            unit=unit,
            entries=[
                *(folder(own.root, each) for each in ("bin", "metrics")),
                *program_files(own.root),
                *metrics_units((unit, _SERVICES[unit]), own.root, own.fabric),
            ],
        )
    if unit == TIMER:
        node_exporter(name="Node exporter", root=own.root)


def webhook(setting: str | None) -> str | None:
    """Return the address of a webhook, of which the setting may name a file; None without one."""
    if setting is None or "://" in setting:
        return setting
    path, expected = Path(setting).expanduser(), "a file with a webhook's URL alone, without user@"
    text = (read_text(path, expected, 4096) or "").strip()
    if not WEBHOOK.fullmatch(text):
        raise PlanError(f"group_data: notify: {path}: found no URL; expected {expected}")
    check_private(path)
    return text


@operation()
def notice_test() -> Generator[PyinfraCommand]:
    """Send a test from the current Spark; it fails where that does not arrive."""
    own = target()
    proxy = (QuoteString(f"{key}={text}") for key, text in own.settings.proxy_variables.items())
    program = QuoteString(f"{own.root}/bin/sparkwright-host")
    words = "timeout 60 env", *proxy, program, "notify", QuoteString(own.root), own.spark, "test"

    def send(state: State, host: Host) -> bool:
        arrived, output = run_now(host, StringCommand(*words))
        said = plain(output.stdout or output.stderr or "no answer within 60 s")
        host.log(said, logger.info if arrived else logger.error)
        return arrived

    yield FunctionCommand(send, (), {})


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
