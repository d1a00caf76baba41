"""Diagnose a Spark, and change nothing."""

from collections.abc import Callable, Generator, Sequence

from pyinfra import host
from pyinfra.api import Host, StringCommand, operation

from sparkwright.causes.cause import Diagnosis
from sparkwright.common.hardware import Hardware
from sparkwright.common.operations import foresee, is_first_pass, notice
from sparkwright.doctor.checkup import Checkup
from sparkwright.doctor.diagnosis import diagnose
from sparkwright.doctor.facts import HostCheckup, Listeners
from sparkwright.doctor.listeners import astray, others
from sparkwright.doctor.report import fabric_diagnosis, listener_diagnosis, report
from sparkwright.fabric.check import is_in_force
from sparkwright.fabric.link_check import link_findings, probes
from sparkwright.fabric.operations import read_fabric
from sparkwright.fleet.fabric_plan import FabricPlan
from sparkwright.recipe.advisories import warning
from sparkwright.run.spark import Declared, recipe_of


@operation()
def doctor(
    root: str,
    recipe: str | None,
    hardware: Hardware,
    plan: FabricPlan | None = None,
    peer: Host | None = None,
    wanted: str | None = None,
    may_listen: Declared | None = None,
    examined: Callable[[Checkup | None, Sequence[Diagnosis]], None] | None = None,
) -> Generator[StringCommand, None, None]:
    """Name the cause, the evidence and the remedy of what is wrong.

    Args:
        recipe: what it is to serve; None for an idle one.
        hardware: its class.
        plan, peer: of a pair, its part of the fabric and the other Spark.
        wanted: the release that the inventory asks for, empty for an idle Spark; None where the
            lock lacks it.
        may_listen: the sockets of ours that may listen beyond loopback.
        examined: takes checkup and diagnoses, once a run; None and none of them if the Spark cannot
            be read.
    """
    if recipe and (advisory := warning(recipe_of(recipe))):
        notice(advisory, "yellow")
    foresee(
        lambda: host.get_fact(HostCheckup, root=root),
        lambda: host.get_fact(Listeners),
        lambda: read_fabric(peer, hardware, root) if plan and peer else None,
    )
    tell = examined if examined and is_first_pass() else lambda *_: None
    try:
        checkup = host.get_fact(HostCheckup, root=root)
        link = _link(plan, hardware, peer, root) if plan and peer else []
        listening, may = host.get_fact(Listeners), may_listen or Declared()
    # Of a Spark that is lost it is none of Exception.
    except BaseException:
        tell(None, ())
        raise
    exposed = [listener_diagnosis(socket) for socket in astray(listening, may)]
    diagnoses = diagnose(checkup, [*link, *exposed], wanted)
    tell(checkup, diagnoses)
    for line, color in report(checkup, diagnoses, recipe):
        notice(line, color)
    if foreign := others(listening, may):
        notice(f"not ours, and open to the LAN: {', '.join(foreign)}")
    host.noop("looked at, and left as it is")
    yield from ()


def _link(plan: FabricPlan, hardware: Hardware, peer: Host, root: str) -> list[Diagnosis]:
    """Return what is wrong with the link to the other Spark of a pair."""
    other = read_fabric(peer, hardware, root)
    ports = hardware.fabric_ports
    port = next((port for port in ports if is_in_force(plan.of_peer, port, other)), None)
    own = read_fabric(host, hardware, root, probes(plan, port) if port else ())
    if port is None or not is_in_force(plan, port, own):
        return [fabric_diagnosis(plan, own, other)]
    return [
        Diagnosis("link", finding.found, f"from {plan.spark}", finding.remedy)
        for finding in link_findings(plan, port, own, other)
    ]
