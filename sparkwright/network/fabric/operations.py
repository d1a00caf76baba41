"""Operations of the network between the two Sparks of a pair, and the check of its link."""

import json
import socket
import time
from collections.abc import Generator, Sequence

from pyinfra import host, state
from pyinfra.api import FunctionCommand, Host, QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.common.files import Directory, Entry, ManagedFile
from sparkwright.common.hardware import Hardware
from sparkwright.common.operations import differs, failing, notice, planning, unit_differs
from sparkwright.common.part import Ask
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import FABRIC_SYSCTL, FIRST_USER, folder
from sparkwright.common.ports import LINK_PORT, MASTER_PORT, SHARE_PORT
from sparkwright.common.render import unit_file
from sparkwright.declared.fleet.fabric_plan import GUARD, FabricPlan, arp_settings, netplan_text
from sparkwright.machine.host.facts import unit_state
from sparkwright.machine.host.operations.files import managed_files
from sparkwright.machine.host.operations.services import engine_users, sysctl
from sparkwright.machine.host.state import UnitState
from sparkwright.network.fabric.bandwidth import (
    PORTS,
    bandwidth_findings,
    is_measured,
    record,
    server_script,
)
from sparkwright.network.fabric.cabling import Port, cabled, common_port, switched_off
from sparkwright.network.fabric.check import fabric_differences, fabric_findings, is_in_force
from sparkwright.network.fabric.link_check import gid_index, link_findings, probes, strangers
from sparkwright.network.fabric.netplan import our_netdevs
from sparkwright.network.fabric.state import FabricState, Probe, WriteBandwidth
from sparkwright.run.state import read, read_now
from sparkwright.run.target import target_of

_FILES = HOST_FILES / "network" / "fabric"
# Seconds for a port to find its link.
_LINK_SECONDS = 10


@operation()
def fabric(
    plan: FabricPlan, hardware: Hardware, peer: Host, root: str
) -> Generator[PyinfraCommand, None, None]:
    """Give the twins of the cabled port their addresses, and keep others away from them.

    Both Sparks are judged before either is changed, each by its own run of this operation. What
    was in /etc/netplan is kept in `root`/backups; the LAN's interface is left alone, and should
    it not survive, the previous settings return by themselves.
    """
    own, other = read_fabric(host, hardware, root), read_fabric(peer, hardware, root)
    if not (cabled(hardware, own) and cabled(hardware, other)):
        off = [*switched_off(hardware, own), *switched_off(hardware, other)]
        if off and planning():
            notice(f"{', '.join(sorted(set(off)))} will be switched on to find the cable")
        for netdev in switched_off(hardware, own):
            differs(netdev, "switched on", "off")
        for netdev in switched_off(hardware, own):
            yield StringCommand("ip link set", QuoteString(netdev), "up")
        if not planning():
            own, other = _settled(hardware, peer, root)
        elif off:
            return

    found = fabric_findings(plan, hardware, own, other)
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
    guard = list(_guard(plan, port, own, other, root))
    in_force = is_in_force(plan, port, own)
    if not in_force and (reached := _reached_by(port, own)):
        yield failing(
            f"error: {plan.spark} is reached at {reached}, through the cable that this run "
            "configures. Set ssh_hostname to its LAN address in the inventory."
        )
        return
    yield from sysctl._inner(path=FABRIC_SYSCTL, values=arp_settings(port))
    if not in_force:
        yield _apply(plan, port, own, root)
    yield from guard


def _reached_by(port: Port, own: FabricState) -> str | None:
    """Return the address at which pyinfra reaches this Spark, where that is one of the port's."""
    client = getattr(host.connector, "client", None)
    transport = client.get_transport() if client else None
    if not transport or not isinstance(transport.sock, socket.socket):
        return None
    reached = str(transport.sock.getpeername()[0])
    return (
        reached if (reached in {str(at.ip) for name, at in own.addresses if name in port}) else None
    )


def ask_fabric(hardware: Hardware, root: str, tried: Sequence[Probe] = ()) -> Ask[FabricState]:
    """Return the ask for a Spark's fabric, and what becomes of some packets."""
    netdevs = [netdev for port in hardware.fabric_ports for netdev in port]
    return FabricState.ask(root=root, netdevs=netdevs, probes=tried)


def read_fabric(
    spark: Host, hardware: Hardware, root: str, tried: Sequence[Probe] = ()
) -> FabricState:
    """Return the state of one Spark's fabric."""
    return read(spark, ask_fabric(hardware, root, tried))


def _settled(hardware: Hardware, peer: Host, root: str) -> tuple[FabricState, FabricState]:
    """Wait a little for links: ports that are switched on, or set anew by the peer, take time."""
    ask, end = ask_fabric(hardware, root), time.monotonic() + _LINK_SECONDS
    while True:
        own, other = read_now(host, ask), read_now(peer, ask)
        if (cabled(hardware, own) and cabled(hardware, other)) or time.monotonic() > end:
            return own, other
        time.sleep(1)


def _apply(plan: FabricPlan, port: Port, own: FabricState, root: str) -> StringCommand:
    """Return the command that changes the network; it goes on should the connection drop."""
    pairs = zip(port, plan.interfaces, strict=True)
    arguments = [
        netplan_text(plan, port),
        f"{root}/backups",
        str(plan.mtu),
        *(argument for pair in pairs for argument in pair),
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
    plan: FabricPlan, port: Port, own: FabricState, other: FabricState, root: str
) -> Generator[PyinfraCommand, None, None]:
    macs = [other.netdevs[netdev].mac for netdev in port]
    a, b = zip(port, map(str, plan.networks), plan.peer_addresses, macs, strict=True)
    internet = "internet" if target_of(host).settings.media_domains else "none"
    engine = (FIRST_USER, str(MASTER_PORT), internet)
    guarded = " ".join([f"{LINK_PORT}:{SHARE_PORT}", *a, *b, *engine])
    state = _guard_state(root)
    # Its rules name the engine's.
    yield from engine_users._inner()
    changes = list(managed_files._inner(entries=_guard_files(root, guarded)))
    unit_differs(GUARD, active=state.active, enabled=state.enabled, outdated=state.outdated)
    if state.active and not own.guarded:
        differs(GUARD, "rules in force", "none")
    yield from changes
    works = state.active and state.enabled and own.guarded and not state.outdated
    if changes or not works:
        yield StringCommand(
            f"systemctl daemon-reload && systemctl enable --quiet {GUARD} "
            f"&& systemctl restart {GUARD}"
        )


def _guard_files(root: str, guarded: str) -> list[Entry]:
    return [
        Directory(root),
        folder(root, "bin"),
        ManagedFile(f"{root}/bin/fabric-guard", (_FILES / "fabric-guard").read_text("utf-8")),
        unit_file(_FILES / GUARD, root=root, guarded=guarded),
    ]


def _guard_state(root: str) -> UnitState:
    files = [each.path for each in _guard_files(root, "") if isinstance(each, ManagedFile)]
    return unit_state(GUARD, files)


@operation()
def link(
    plan: FabricPlan, hardware: Hardware, peer: Host, root: str, measured: bool
) -> Generator[PyinfraCommand, None, None]:
    """Prove that this Spark reaches its peer by both twins, with packets of full size.

    Where both Sparks have RDMA, its speed is measured once for each link; `measured` has it
    measured anew, which disturbs a replica that serves.
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
    known = _known(plan, root) if strangers(plan, port, own, other) else {}
    found = link_findings(plan, port, own, other, known)
    errors = "\n".join(map(str, found))
    if errors:
        yield failing(errors)
    elif _must_measure(plan, own, other, port, anew=measured):
        differs(f"speed of the link to {plan.peer}", "measured", "never measured as it is")
        yield from _measure(plan, own, other, port, root)
    else:
        host.noop(f"{plan.peer} answers by {' and '.join(port)}")


def _known(plan: FabricPlan, root: str) -> dict[str, str]:
    """Return the Sparks of the other pairs of this run, by the MAC addresses of their fabrics."""
    pairs = [target for each in state.active_hosts if (target := target_of(each)).is_pair]
    return {
        netdev.mac: each.spark
        for each in pairs
        if each.spark not in (plan.spark, plan.peer)
        for netdev in read_fabric(each.host, each.hardware, root).netdevs.values()
    }


def _is_client(plan: FabricPlan) -> bool:
    """Which of the two sends: both know, whoever is the head."""
    return plan.spark < plan.peer


def _must_measure(
    plan: FabricPlan, own: FabricState, other: FabricState, port: Port, *, anew: bool
) -> bool:
    if not all(state.tool and set(port) <= set(state.rdma) for state in (own, other)):
        return False
    if _is_client(plan):
        return anew or not is_measured(own, record(plan, own, other, port))
    return anew or not is_measured(other, record(plan.of_peer, other, own, port))


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
        ask = WriteBandwidth.ask(device=device, gid=gid, port=tcp, address=address)
        measured.append(read_now(host, ask).gbits)
    host.log(f"RDMA: {' and '.join(f'{value} Gb/s' for value in measured)}")
