"""Metrics of a Spark, for Prometheus; its flight recorder; notices, to its owner's webhook."""

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pyinfra import host
from pyinfra.api import HiddenValue, StringCommand, deploy, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.errors import PlanError
from sparkwright.common.files import Directory, ManagedFile
from sparkwright.common.local_file import read_text
from sparkwright.common.operations import differs, failing, notice
from sparkwright.common.part import Ask, Part
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import EXPORTER, EXPORTER_DEFAULTS, folder
from sparkwright.common.ports import EXPORTER_PORT, METRICS_PORT
from sparkwright.common.render import unit_file
from sparkwright.declared.fleet.fabric_plan import FabricPlan
from sparkwright.door.deploy import door_plan
from sparkwright.machine.host.operations.files import secret_file, unit_state
from sparkwright.machine.host.operations.services import service
from sparkwright.plan.release.programs import program_files
from sparkwright.run.state import read
from sparkwright.run.target import Target, bad_input, target

# A head writes for its exporter; a worker answers its head, on the fabric.
TIMER, SOCKET, RECORDER = "spark-metrics.timer", "fabric-metrics.socket", "flight-recorder.service"
# Scrapes at once. Each that hangs keeps its place for ever: more of them get a 503 at once.
_SCRAPES = 4
# What timer and socket start.
_SERVICES = {TIMER: "spark-metrics.service", SOCKET: "fabric-metrics@.service"}
_NOTICES = ("notify.timer", "notify@.service")
_FILES = HOST_FILES / "insight" / "monitoring"


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what the steps below read."""
    if TIMER in _units_of(own):
        yield Exporter.ask(root=own.root)


def _units_of(own: Target) -> list[str]:
    """Return what tells of a Spark; it may be a worker in one seat, and a head in another."""
    heads = {each.is_head for each in own.seats if each.recipe_name}
    return [unit for unit, is_head in ((TIMER, True), (SOCKET, False)) if is_head in heads]


def metrics_units(names: Iterable[str], root: str, plan: FabricPlan | None) -> list[ManagedFile]:
    """Return units of files/host/insight/monitoring."""
    values = {"root": root, "address": plan.addresses[0] if plan else "", "port": METRICS_PORT}
    values["beside"] = ""
    if plan:
        around = sorted(plan.sparks)
        own = around.index(plan.spark)
        known = (plan.of(around[n % len(around)]).addresses[0] for n in (own, own + 1, own - 1))
        values["beside"] = "".join(f" {address}" for address in known)
    return [unit_file(_FILES / name, **values) for name in names]


@deploy("Metrics")
def apply() -> None:
    """Have a head's metrics behind its door, a worker's behind its head's; record; send notices."""
    own = target()
    tell = _units_of(own)
    with bad_input():
        address = webhook(own.settings.notify)
    wanted = {*tell, RECORDER if tell else None, _NOTICES[0] if address else None}
    stopped(name="None of another rank", units=sorted({*_SERVICES, RECORDER, _NOTICES[0]} - wanted))
    secret = HiddenValue(f"{address}\n") if address else None
    secret_file(name="Webhook", path=f"{own.root}/secrets/webhook", content=secret)
    if address:
        doors = [door_plan(each) for each in own.seats if each.is_head and each.port]
        ends = [each.certificate.ends.timestamp() for each in doors if each.certificate]
        values = {"root": own.root, "spark": own.spark, "ends": int(min(ends, default=0))}
        proxy = own.settings.proxy_variables
        units = [unit_file(_FILES / each, **values, proxy=proxy) for each in _NOTICES]
        own_folders = (folder(own.root, "bin"), Directory(f"{own.root}/state/notify"))
        entries = [*own_folders, *program_files(own.root), *units]
        service(name="Notices", unit=_NOTICES[0], entries=entries)
    folders = [folder(own.root, each) for each in ("bin", "metrics", "state")]
    placed = [*folders, *program_files(own.root)]
    for unit in tell:
        units = metrics_units((unit, _SERVICES[unit]), own.root, own.fabric)
        service(name="GPU and engine", unit=unit, entries=[*placed, *units])
    if tell:
        (recorder,) = metrics_units((RECORDER,), own.root, own.fabric)
        service(name="Flight recorder", unit=RECORDER, entries=[*placed, recorder])
    if TIMER in tell:
        node_exporter(name="Node exporter", root=own.root)


def webhook(setting: str | None) -> str | None:
    """Return the address of a webhook: the setting, or what the file has that it names."""
    if setting is None or "://" in setting:
        return setting
    path, expected = Path(setting).expanduser(), "a webhook's URL in a file of mode 600"
    text = (read_text(path, expected, 4096) or "").strip()
    is_url = re.fullmatch(r"(ntfy\+)?https?://[!-?A-~]+", text)
    found = f"mode {path.stat().st_mode & 0o777:o}" if is_url else "no URL"
    if found not in ("mode 600", "mode 400"):
        raise PlanError(f"group_data: notify: {path}: found {found}; expected {expected}")
    return text


@operation()
def test_notice() -> Generator[StringCommand]:
    """Have the current Spark send a test; it fails where that does not arrive."""
    if target().settings.notify is None:
        yield failing("No webhook is set: set `notify` in the group data, and apply.")
    shown = "{ journalctl --unit=notify@test --lines=5 --output=cat >&2; exit 1; }"
    yield StringCommand("systemctl start notify@test ||", shown)


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
