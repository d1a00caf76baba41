"""The fabric, the network between the Sparks of a group: it is set up, and its links tested."""

import json
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from pyinfra import host, state
from pyinfra.api import FunctionCommand, Host, QuoteString, StringCommand, deploy, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.errors import Finding
from sparkwright.common.operations import differs, failing, notice, planning
from sparkwright.common.part import Ask
from sparkwright.declared.fleet.fabric_plan import FabricLink, meetings
from sparkwright.network.fabric.check import is_in_force, set_up
from sparkwright.network.fabric.link_check import (
    PORTS,
    bandwidth_findings,
    gid_index,
    is_measured,
    link_findings,
    probes,
    record,
    server_script,
    slowest,
    speeds,
    with_record,
)
from sparkwright.network.fabric.operations import ask_fabric, ask_neighbors, fabric
from sparkwright.network.fabric.state import Ends, FabricState, Port, WriteBandwidth
from sparkwright.run.state import read, read_now
from sparkwright.run.target import Target, target, target_of


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what these steps ask of a Spark of a group."""
    if own.fabric:
        yield ask_fabric(own)


@deploy("Fabric")
def apply() -> None:
    """Set up the links between the Sparks of a group, and test each; do nothing on other Sparks.

    A Spark that leaves its group keeps its settings, for its return.
    """
    own, plan = target(), target().fabric
    if plan is None:
        return
    fabric(name="Fabric", plan=plan, peers=own.peers)
    hosts = {target_of(each).spark: each for each in own.peers}
    rounds = meetings(plan.sparks)
    for partners in rounds:
        peer = partners.get(plan.spark)
        link(
            name="Link over the fabric",
            between=plan.link(peer) if peer else None,
            peer=hosts[peer] if peer else None,
        )
    if len(rounds) > 1:
        compared(name="Links compared", peers=own.peers)


@operation()
def link(between: FabricLink | None, peer: Host | None) -> Generator[PyinfraCommand]:
    """Prove that this Spark reaches a peer by both twins, with packets of full size.

    Where both Sparks have RDMA, its speed is measured once for each link; `--data fabric=verify`
    has it measured anew, which disturbs a replica that serves. Each two Sparks of a group meet in
    one run of this operation; with an odd number, one of them rests.
    """
    if between is None or peer is None:
        host.noop("the others meet")
        return
    own, other, ends = read_link(between, peer)
    if ends is None:
        if planning():
            host.noop("nothing to prove before the fabric is set up")
        else:
            yield failing(
                f"{between.spark} and {between.peer} do not have their addresses in the same port: "
                "has the cable been moved? Run again."
            )
        return
    if found := _faults(between, ends, own, other):
        yield failing("\n".join(map(str, found)))
        return
    # Both know which of the two sends, whoever is the head, and writes the record.
    sends = between.spark < between.peer
    if sends:
        sender, made = own, record(between, own, other, ends)
    else:
        sender, made = other, record(between.of_peer, other, own, ends[::-1])
    has_rdma = all(
        each.tool and {*port} <= {*each.rdma} for each, port in zip((own, other), ends, strict=True)
    )
    anew = target().options.fabric == "verify"
    if has_rdma and (anew or not is_measured(sender, made)):
        differs(f"speed of the link to {between.peer}", "measured", "never measured as it is")
        yield from _measure(between, own, ends[0], made if sends else None)
    else:
        host.noop(f"{between.peer} answers by {' and '.join(ends[0])}")


@operation()
def compared(peers: Sequence[Host]) -> Generator[PyinfraCommand]:
    """Name the slowest link of a group, where it is slower than the others: all wait for it."""
    found = {
        f"{target_of(each).spark} and {peer}": gbits
        for each in (host, *peers)
        for peer, gbits in speeds(read(each, ask_fabric(target_of(each))))
        if peer in target().ranks
    }
    if slow := slowest(found):
        notice(slow)
    host.noop("each two Sparks have met")
    yield from ()


def read_link(between: FabricLink, peer: Host) -> tuple[FabricState, FabricState, Ends | None]:
    """Return this Spark's fabric, with the test of a link, and its peer's.

    The ports are those in which both are as planned; None where there are none.
    """
    here, plan, there = target(), between.plan, between.of_peer
    other = read(peer, ask_fabric(target_of(peer)))
    theirs = set_up(there.plan, here.hardware, other)
    # Those with one cable have it in the same port.
    ours = set_up(plan, here.hardware, read(host, ask_fabric(here))) if plan.ring else theirs
    ends = (ours[between.place], theirs[there.place]) if ours and theirs else None
    own = read(host, ask_fabric(here, probes(between, ends[0]) if ends else ()))
    return own, other, ends if ours and is_in_force(plan, ours, own) else None


def _faults(between: FabricLink, ends: Ends, own: FabricState, other: FabricState) -> list[Finding]:
    """Return the faults of a link; where it has some, who answers at its port is asked first."""
    found = [*link_findings(between, ends, own, other, {})]
    if not found:
        return []
    others = {
        each.spark: read(each.host, ask_fabric(each))
        for each in map(target_of, state.active_hosts)
        if each.fabric and each.spark != between.spark
    }
    heard = read(host, ask_neighbors(target(), others)).heard
    macs = {mac for netdev in ends[0] for mac in heard.get(netdev, ())}
    known = {
        netdev.mac: name
        for name, each in others.items()
        if name != between.peer
        for netdev in each.netdevs.values()
    }
    return [*link_findings(between, ends, own, other, known, macs)]


def _measure(
    between: FabricLink, own: FabricState, port: Port, made: dict[str, str] | None
) -> Generator[PyinfraCommand]:
    """Yield what measures a link, and writes its record; without one, what waits for that."""
    devices = [
        (own.rdma[netdev].device, gid_index(own.rdma[netdev], address) or 0)
        for netdev, address in zip(port, between.addresses, strict=True)
    ]
    if made is None:
        for (device, gid), tcp in zip(devices, PORTS, strict=True):
            yield StringCommand(server_script(device, gid, tcp))
        return
    found: list[float | None] = []

    def write() -> None:
        for (device, gid), tcp, address in zip(devices, PORTS, between.peer_addresses, strict=True):
            ask = WriteBandwidth.ask(device=device, gid=gid, port=tcp, address=address)
            found.append(read_now(host, ask).gbits)
        host.log(f"RDMA: {' and '.join(f'{value} Gb/s' for value in found)}")

    yield FunctionCommand(write, (), {})
    if wrong := [*bandwidth_findings(between, port, found)]:
        yield failing("\n".join(map(str, wrong)))
        return
    text = json.dumps(with_record(own, between.peer, made | {"gbits": found}))
    place = f"{target().root}/state"
    file = QuoteString(f"{place}/fabric.json")
    yield StringCommand(
        "mkdir -p", QuoteString(place), "&& printf %s", QuoteString(text), ">", file
    )
