"""The fabric, the network between the two Sparks of a pair: it is set up, and its link tested."""

import json
import socket
import time
from collections.abc import Generator, Iterator, Sequence
from itertools import chain
from typing import Any

from pyinfra import host, state
from pyinfra.api import FunctionCommand, Host, QuoteString, StringCommand, deploy, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.files import Directory, Entry, ManagedFile
from sparkwright.common.operations import differs, failing, notice, planning
from sparkwright.common.part import Ask
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import FABRIC_SYSCTL, FIRST_USER, folder
from sparkwright.common.ports import LINK_PORT, MASTER_PORT, SHARE_PORT
from sparkwright.common.render import unit_file
from sparkwright.declared.fleet.fabric_plan import GUARD, FabricPlan, arp_settings, netplan_text
from sparkwright.machine.host.operations.files import unit_state
from sparkwright.machine.host.operations.services import engine_users, service, sysctl
from sparkwright.network.fabric.check import (
    cabled,
    common_port,
    fabric_differences,
    fabric_findings,
    is_in_force,
    switched_off,
)
from sparkwright.network.fabric.link_check import (
    PORTS,
    bandwidth_findings,
    gid_index,
    is_measured,
    link_findings,
    probes,
    record,
    server_script,
    strangers,
)
from sparkwright.network.fabric.netplan import our_netdevs
from sparkwright.network.fabric.state import FabricState, Port, Probe, WriteBandwidth
from sparkwright.run.state import read, read_now
from sparkwright.run.target import Target, target, target_of

_FILES = HOST_FILES / "network" / "fabric"
# Seconds for a port to find its link.
_LINK_SECONDS = 10


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what these steps ask of a Spark of a pair."""
    if own.fabric:
        yield _ask(own)


def _ask(own: Target, tried: Sequence[Probe] = ()) -> Ask[FabricState]:
    """Return the ask for a Spark's fabric, and what becomes of some packets."""
    netdevs = [*chain.from_iterable(own.hardware.fabric_ports)]
    return FabricState.ask(root=own.root, netdevs=netdevs, probes=tried)


@deploy("Fabric")
def apply() -> None:
    """Set up the link between the two Sparks of a pair, and test it; do nothing on other Sparks.

    A Spark that leaves its pair keeps its settings, for its return.
    """
    plan, peers = target().fabric, target().peers
    if plan:
        (peer,) = peers
        fabric(name="Fabric", plan=plan, peer=peer)
        link(name="Link over the fabric", plan=plan, peer=peer)


@operation()
def fabric(plan: FabricPlan, peer: Host) -> Generator[PyinfraCommand]:
    """Give the twins of the cabled port their addresses, and keep others away from them.

    Both Sparks are judged before either is changed, each by its own run of this operation. What
    was in /etc/netplan is kept among the backups; the LAN's interface is left alone, and should it
    not survive, the previous settings return by themselves.
    """
    hardware, there = target().hardware, target_of(peer)
    own, other = read(host, _ask(target())), read(peer, _ask(there))
    if not (cabled(hardware, own) and cabled(hardware, other)):
        off = switched_off(hardware, own)
        unseen = sorted({*off, *switched_off(hardware, other)})
        if unseen and planning():
            notice(f"{', '.join(unseen)} will be switched on to find the cable")
        for netdev in off:
            differs(netdev, "switched on", "off")
        for netdev in off:
            yield StringCommand("ip link set", QuoteString(netdev), "up")
        if not planning():
            own, other = _settled(peer)
        elif unseen:
            return

    found = [*fabric_findings(plan, hardware, own, other)]
    for finding in found:
        if not finding.error:
            notice(str(finding))
    errors = [str(finding) for finding in found if finding.error]
    theirs = fabric_findings(plan.of_peer, hardware, other, own)
    port = common_port(hardware, own, other)
    if not errors and any(finding.error for finding in theirs):
        errors = [f"error: {plan.peer} failed the fabric check; nothing was changed here."]
    if errors or port is None:
        yield failing("\n".join(errors))
        return

    for difference in fabric_differences(plan, port, own):
        differs(*difference)
    guard = list(_guard(plan, port, own, other))
    in_force = is_in_force(plan, port, own)
    if not in_force and (reached := _reached_by(port, own)):
        yield failing(
            f"error: {plan.spark} is reached at {reached}, through the cable that this run "
            "configures. Set ssh_hostname to its LAN address in the inventory."
        )
        return
    yield from sysctl._inner(path=FABRIC_SYSCTL, values=arp_settings(port))
    if not in_force:
        yield _apply(plan, port, own)
    yield from guard


def _reached_by(port: Port, own: FabricState) -> str | None:
    """Return the address at which pyinfra reaches this Spark, where that is one of the port's."""
    client = getattr(host.connector, "client", None)
    transport = client.get_transport() if client else None
    if not transport or not isinstance(transport.sock, socket.socket):
        return None
    reached = str(transport.sock.getpeername()[0])
    addresses = {str(at.ip) for name, at in own.addresses if name in port}
    return reached if reached in addresses else None


def _settled(peer: Host) -> tuple[FabricState, FabricState]:
    """Wait a little for links: ports that are switched on, or set anew by the peer, take time."""
    here, there, end = target(), target_of(peer), time.monotonic() + _LINK_SECONDS
    while True:
        own, other = read_now(host, _ask(here)), read_now(peer, _ask(there))
        linked = cabled(here.hardware, own) and cabled(here.hardware, other)
        if linked or time.monotonic() > end:
            return own, other
        time.sleep(1)


def _apply(plan: FabricPlan, port: Port, own: FabricState) -> StringCommand:
    """Return the command that changes the network; it goes on should the connection drop."""
    arguments = [
        netplan_text(plan, port),
        f"{target().root}/backups",
        str(plan.mtu),
        *chain.from_iterable(zip(port, plan.interfaces, strict=True)),
        *sorted(our_netdevs(own).intersection(own.netdevs) - set(port)),
    ]
    return StringCommand(
        "systemd-run --quiet --collect --pipe --wait --expand-environment=no",
        "--unit sparkwright-fabric /bin/sh -c",
        QuoteString((_FILES / "apply.sh").read_text("utf-8")),
        "apply",
        *map(QuoteString, arguments),
    )


def _guard(
    plan: FabricPlan, port: Port, own: FabricState, other: FabricState
) -> Generator[PyinfraCommand]:
    """Yield what lets only the other Spark reach the port, and engines only each other."""
    root = target().root
    macs = [other.netdevs[netdev].mac for netdev in port]
    a, b = zip(port, map(str, plan.networks), plan.peer_addresses, macs, strict=True)
    internet = "internet" if target().settings.media_domains else "none"
    engine = (FIRST_USER, str(MASTER_PORT), internet)
    guarded = " ".join([f"{LINK_PORT}:{SHARE_PORT}", *a, *b, *engine])
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


@operation()
def link(plan: FabricPlan, peer: Host) -> Generator[PyinfraCommand]:
    """Prove that this Spark reaches its peer by both twins, with packets of full size.

    Where both Sparks have RDMA, its speed is measured once for each link; `--data fabric=verify`
    has it measured anew, which disturbs a replica that serves.
    """
    own, other, port = read_link(plan, peer)
    if port is None:
        if planning():
            host.noop("nothing to prove before the fabric is set up")
        else:
            yield failing(
                f"{plan.spark} and {plan.peer} do not have their addresses in the same port: "
                "has the cable been moved? Run again."
            )
        return
    known = _known(plan) if strangers(plan, port, own, other) else {}
    if found := [*link_findings(plan, port, own, other, known)]:
        yield failing("\n".join(map(str, found)))
        return
    # Both know which of the two sends, whoever is the head, and writes the record.
    sends = plan.spark < plan.peer
    ends = (plan, own, other) if sends else (plan.of_peer, other, own)
    made = record(*ends, port)
    has_rdma = all(each.tool and set(port) <= set(each.rdma) for each in (own, other))
    anew = target().options.fabric == "verify"
    if has_rdma and (anew or not is_measured(ends[1], made)):
        differs(f"speed of the link to {plan.peer}", "measured", "never measured as it is")
        yield from _measure(plan, own, port, made if sends else None)
    else:
        host.noop(f"{plan.peer} answers by {' and '.join(port)}")


def read_link(plan: FabricPlan, peer: Host) -> tuple[FabricState, FabricState, Port | None]:
    """Return this Spark's fabric, with the test of its link, and its peer's.

    The port is the one in which both are as planned; None where there is none.
    """
    here, other = target(), read(peer, _ask(target_of(peer)))
    ports = here.hardware.fabric_ports
    port = next((port for port in ports if is_in_force(plan.of_peer, port, other)), None)
    own = read(host, _ask(here, probes(plan, port) if port else ()))
    return own, other, port if port and is_in_force(plan, port, own) else None


def _known(plan: FabricPlan) -> dict[str, str]:
    """Return the Sparks of the other pairs of this run, by the MAC addresses of their fabrics."""
    pairs = [own for each in state.active_hosts if (own := target_of(each)).is_group]
    return {
        netdev.mac: each.spark
        for each in pairs
        if each.spark not in (plan.spark, plan.peer)
        for netdev in read(each.host, _ask(each)).netdevs.values()
    }


def _measure(
    plan: FabricPlan, own: FabricState, port: Port, made: dict[str, str] | None
) -> Generator[PyinfraCommand]:
    """Yield what measures the link, and writes its record; without one, what waits for that."""
    devices = [
        (own.rdma[netdev].device, gid_index(own.rdma[netdev], address) or 0)
        for netdev, address in zip(port, plan.addresses, strict=True)
    ]
    if made is None:
        for (device, gid), tcp in zip(devices, PORTS, strict=True):
            yield StringCommand(server_script(device, gid, tcp))
        return
    measured: list[float | None] = []

    def write() -> None:
        for (device, gid), tcp, address in zip(devices, PORTS, plan.peer_addresses, strict=True):
            ask = WriteBandwidth.ask(device=device, gid=gid, port=tcp, address=address)
            measured.append(read_now(host, ask).gbits)
        host.log(f"RDMA: {' and '.join(f'{value} Gb/s' for value in measured)}")

    yield FunctionCommand(write, (), {})
    if found := [*bandwidth_findings(plan, port, measured)]:
        yield failing("\n".join(map(str, found)))
        return
    text, place = QuoteString(json.dumps(made | {"gbits": measured})), f"{target().root}/state"
    file = QuoteString(f"{place}/fabric.json")
    yield StringCommand("mkdir -p", QuoteString(place), "&& printf %s", text, ">", file)
