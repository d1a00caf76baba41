"""Prove the network between the two Sparks of a pair."""

import json
from collections.abc import Generator, Sequence

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from deploys.facts.fabric import WriteBandwidth
from deploys.operations.differences import differs
from deploys.operations.fabric import read_fabric
from deploys.operations.messages import failing, planning
from deploys.plan.bandwidth import PORTS, bandwidth_findings, is_measured, record, server_script
from deploys.plan.cabling import Port
from deploys.plan.fabric import FabricPlan
from deploys.plan.fabric_check import is_in_force
from deploys.plan.fabric_state import FabricState
from deploys.plan.hardware import Hardware
from deploys.plan.link_check import gid_index, link_findings, probes


@operation()
def link(
    plan: FabricPlan, hardware: Hardware, peer: Host, root: str, measured: bool
) -> Generator[PyinfraCommand, None, None]:
    """Prove that this Spark reaches its peer by both twins, with packets of full size.

    Where both Sparks have RDMA, its speed is measured once for each link.

    Args:
        plan, hardware, peer, root: as for `fabric`.
        measured: measure it anew; that disturbs a replica which serves.
    """
    other = read_fabric(peer, hardware, root)
    ports = hardware.fabric_ports
    port = next((port for port in ports if is_in_force(plan.of_peer, port, other)), None)
    own = read_fabric(host, hardware, root, probes(plan, port) if port else ())
    if port is None or not is_in_force(plan, port, own):
        if planning():
            host.noop("nothing to prove before the fabric is set up")
        else:
            yield failing(
                f"{plan.spark} and {plan.peer} do not have their addresses in the same port: "
                "has the cable been moved? Run again."
            )
        return
    found = link_findings(plan, port, own, other)
    errors = "\n".join(map(str, found))
    if errors:
        yield failing(errors)
    elif _must_measure(plan, own, other, port, anew=measured):
        differs(f"speed of the link to {plan.peer}", "measured", "never measured as it is")
        yield from _measure(plan, own, other, port, root)
    else:
        host.noop(f"{plan.peer} answers by {' and '.join(port)}")


def _is_client(plan: FabricPlan) -> bool:
    """Which of the two sends: both know, whoever is the head."""
    return plan.spark < plan.peer


def _must_measure(
    plan: FabricPlan, own: FabricState, other: FabricState, port: Port, *, anew: bool
) -> bool:
    if not all(state.tool and set(port) <= set(state.rdma) for state in (own, other)):
        return False
    if anew:
        return True
    if _is_client(plan):
        return not is_measured(own, record(plan, own, other, port))
    return not is_measured(other, record(plan.of_peer, other, own, port))


def _measure(
    plan: FabricPlan, own: FabricState, other: FabricState, port: Port, root: str
) -> Generator[PyinfraCommand, None, None]:
    devices = [
        (own.rdma[netdev].device, gid_index(own.rdma[netdev], address) or 0)
        for netdev, address in zip(port, plan.addresses, strict=True)
    ]
    if not _is_client(plan):
        for (device, gid), tcp in zip(devices, PORTS, strict=True):
            yield StringCommand(server_script(device, gid, tcp))
        return
    measured: list[float | None] = []
    yield FunctionCommand(_write, (devices, plan.peer_addresses, measured), {})
    if found := bandwidth_findings(plan, port, measured):
        yield failing("\n".join(map(str, found)))
        return
    text = json.dumps(record(plan, own, other, port) | {"gbits": measured})
    folder, file = QuoteString(f"{root}/state"), QuoteString(f"{root}/state/fabric.json")
    yield StringCommand("mkdir -p", folder, "&& printf %s", QuoteString(text), ">", file)


def _write(
    devices: Sequence[tuple[str, int]], addresses: Sequence[str], measured: list[float | None]
) -> None:
    for (device, gid), tcp, address in zip(devices, PORTS, addresses, strict=True):
        measured.append(
            host.get_fact(WriteBandwidth, device=device, gid=gid, port=tcp, address=address)
        )
    host.log(f"RDMA: {' and '.join(f'{value} Gb/s' for value in measured)}")
