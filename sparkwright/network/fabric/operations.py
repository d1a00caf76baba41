"""The operation that sets up the fabric of a Spark, and what is asked of it."""

import socket
import time
from collections.abc import Generator, Mapping, Sequence
from itertools import chain
from weakref import WeakKeyDictionary

from pyinfra import host
from pyinfra.api import Host, QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.files import Directory, Entry, ManagedFile
from sparkwright.common.operations import differs, failing, notice, planning
from sparkwright.common.part import Ask
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import FABRIC_SYSCTL, FIRST_USER, folder
from sparkwright.common.ports import ENGINE_PORTS, LINK_PORT, SHARE_PORT
from sparkwright.common.render import unit_file
from sparkwright.declared.fleet.fabric_plan import GUARD, FabricPlan, arp_settings, netplan_text
from sparkwright.machine.host.operations.files import unit_state
from sparkwright.machine.host.operations.services import engine_users, service, sysctl
from sparkwright.network.fabric.cabling import Wires, wires_of
from sparkwright.network.fabric.check import (
    States,
    cabled,
    fabric_differences,
    fabric_findings,
    is_in_force,
    let_in,
    ports_of,
    set_up,
    switched_off,
)
from sparkwright.network.fabric.netplan import our_netdevs
from sparkwright.network.fabric.state import FabricState, Neighbors, Ports, Probe
from sparkwright.run.state import connection_of, read, read_now
from sparkwright.run.target import Target, target, target_of

_FILES = HOST_FILES / "network" / "fabric"
# Seconds for a port to find its link.
_LINK_SECONDS = 10
# By the head: where the ports of its group lead to, as a run has found it.
_asked: WeakKeyDictionary[Host, dict[str, Wires]] = WeakKeyDictionary()


def ask_fabric(own: Target, tried: Sequence[Probe] = ()) -> Ask[FabricState]:
    """Return the ask for a Spark's fabric, and what becomes of some packets."""
    netdevs = [*chain.from_iterable(own.hardware.fabric_ports)]
    return FabricState.ask(root=own.root, netdevs=netdevs, probes=tried)


def ask_neighbors(own: Target, others: States) -> Ask[Neighbors]:
    """Return the ask for who answers at each interface, by any address of other Sparks."""
    netdevs = [*chain.from_iterable(own.hardware.fabric_ports)]
    found = {str(at.ip) for each in others.values() for _, at in each.addresses}
    return Neighbors.ask(netdevs=netdevs, addresses=sorted(found - {"127.0.0.1"}))


@operation()
def fabric(plan: FabricPlan, peers: Sequence[Host]) -> Generator[PyinfraCommand]:
    """Give the twins of the cabled ports their addresses, and keep others away from them.

    All Sparks are judged before one is changed, each by its own run of this operation. What was in
    /etc/netplan is kept among the backups; the LAN's interface is left alone, and should it not
    survive, the previous settings return by themselves.
    """
    hardware, everyone = target().hardware, (host, *peers)
    states = {target_of(each).spark: read(each, ask_fabric(target_of(each))) for each in everyone}
    if not _all_cabled(plan, states):
        off = switched_off(hardware, states[plan.spark])
        unseen = sorted({name for each in states.values() for name in switched_off(hardware, each)})
        if unseen and planning():
            notice(f"{', '.join(unseen)} will be switched on to find the cable")
        for netdev in off:
            differs(netdev, "switched on", "off")
        for netdev in off:
            yield StringCommand("ip link set", QuoteString(netdev), "up")
        if not planning():
            states = _settled(plan, everyone)
        elif unseen:
            return

    wires = _wires(plan, states)
    found = {
        name: [*fabric_findings(plan.of(name), hardware, states, wires.get(name))]
        for name in states
    }
    for finding in found[plan.spark]:
        if not finding.error:
            notice(str(finding))
    errors = [str(finding) for finding in found[plan.spark] if finding.error]
    unfit = [name for name in plan.peers if any(finding.error for finding in found[name])]
    ports = {name: ports_of(plan.of(name), hardware, states, wires.get(name)) for name in states}
    if not errors and unfit:
        who = " and ".join(unfit)
        errors = [f"error: {who} failed the fabric check; nothing was changed here."]
    known = {name: each for name, each in ports.items() if each}
    if errors or len(known) < len(states):
        yield failing("\n".join(errors))
        return

    own, in_use = states[plan.spark], known[plan.spark]
    for difference in fabric_differences(plan, in_use, own):
        differs(*difference)
    guard = list(_guard(plan, known, states))
    in_force = is_in_force(plan, in_use, own)
    netdevs = [*chain(*in_use)]
    if not in_force and (reached := _reached_by(netdevs, own)):
        yield failing(
            f"error: {plan.spark} is reached at {reached}, through the cable that this run "
            "configures. Set ssh_hostname to its LAN address in the inventory."
        )
        return
    yield from sysctl._inner(path=FABRIC_SYSCTL, values=arp_settings(netdevs))
    if not in_force:
        yield _apply(plan, netdevs, own)
    yield from guard


def _all_cabled(plan: FabricPlan, states: States) -> bool:
    hardware, wanted = target().hardware, len(plan.cables)
    return all(len(cabled(hardware, each)) >= wanted for each in states.values())


def _wires(plan: FabricPlan, states: States) -> dict[str, Wires]:
    """Return where the ports of each Spark lead to: of two, and of what is set up, nobody asks.

    In a run the first to come asks for all: later some may be at work, and answer nobody.
    """
    hardware, everyone = target().hardware, target().together
    is_known = all(set_up(plan.of(name), hardware, each) for name, each in states.items())
    if (len(states) == 2 and not plan.ring) or is_known:
        return {}
    with connection_of(everyone[0]).reading:
        if not planning() and everyone[0] in _asked:
            return _asked[everyone[0]]
        found = {}
        for own in map(target_of, everyone):
            others = {name: each for name, each in states.items() if name != own.spark}
            heard = read(own.host, ask_neighbors(own, others)).heard
            found[own.spark] = wires_of(hardware, heard, others)
        if not planning():
            _asked[everyone[0]] = found
        return found


def _reached_by(netdevs: Sequence[str], own: FabricState) -> str | None:
    """Return the address at which pyinfra reaches this Spark, where that is one of the fabric's."""
    client = getattr(host.connector, "client", None)
    transport = client.get_transport() if client else None
    if not transport or not isinstance(transport.sock, socket.socket):
        return None
    reached = str(transport.sock.getpeername()[0])
    addresses = {str(at.ip) for name, at in own.addresses if name in netdevs}
    return reached if reached in addresses else None


def _settled(plan: FabricPlan, everyone: Sequence[Host]) -> dict[str, FabricState]:
    """Wait a little for links: ports that are switched on, or set anew by a peer, take time."""
    targets, end = [target_of(each) for each in everyone], time.monotonic() + _LINK_SECONDS
    while True:
        states = {each.spark: read_now(each.host, ask_fabric(each)) for each in targets}
        if _all_cabled(plan, states) or time.monotonic() > end:
            return states
        time.sleep(1)


def _apply(plan: FabricPlan, netdevs: Sequence[str], own: FabricState) -> StringCommand:
    """Return the command that changes the network; it goes on should the connection drop."""
    twins = zip(netdevs, plan.interfaces, strict=True)
    arguments = [
        netplan_text(plan, netdevs),
        f"{target().root}/backups",
        str(plan.mtu),
        *(f"{netdev}={interface}" for netdev, interface in twins),
        *sorted(our_netdevs(own).intersection(own.netdevs) - {*netdevs}),
    ]
    return StringCommand(
        "systemd-run --quiet --collect --pipe --wait --expand-environment=no",
        "--unit sparkwright-fabric /bin/sh -c",
        QuoteString((_FILES / "apply.sh").read_text("utf-8")),
        "apply",
        *map(QuoteString, arguments),
    )


def _guard(
    plan: FabricPlan, ports: Mapping[str, Ports], states: States
) -> Generator[PyinfraCommand]:
    """Yield what lets only the group's Sparks reach the ports, and engines only each other."""
    root, own = target().root, states[plan.spark]
    internet = "internet" if target().settings.media_domains else "none"
    engine = (FIRST_USER, ",".join(map(str, ENGINE_PORTS)), internet)
    guarded = " ".join(
        [f"{LINK_PORT}:{SHARE_PORT}", *engine, *plan.subnets, *let_in(plan, ports, states)]
    )
    entries: list[Entry] = [
        Directory(root),
        folder(root, "bin"),
        ManagedFile(f"{root}/bin/fabric-guard", (_FILES / "fabric-guard").read_text("utf-8")),
        unit_file(_FILES / GUARD, root=root, guarded=guarded),
    ]
    # Its rules name the engine's.
    yield from engine_users._inner()
    if not own.guarded and unit_state(GUARD).active:
        differs(GUARD, "rules in force", "none")
    yield from service._inner(unit=GUARD, entries=entries, restart=not own.guarded)
