"""Set up the network between the two Sparks of a pair."""

import socket
import time
from collections.abc import Generator, Sequence
from pathlib import Path

from pyinfra import host
from pyinfra.api import Host, QuoteString, StringCommand, operation
from pyinfra.api.command import PyinfraCommand

from deploys.facts.fabric import Fabric
from deploys.facts.services import Service
from deploys.operations.differences import differs, unit_differs
from deploys.operations.files import managed_files
from deploys.operations.messages import failing, notice, planning
from deploys.operations.services import sysctl
from deploys.plan.cabling import Port, cabled, common_port, switched_off
from deploys.plan.fabric import GUARD, FabricPlan, arp_settings, netplan_text
from deploys.plan.fabric_check import fabric_differences, fabric_findings, is_in_force
from deploys.plan.fabric_state import FabricState, Probe
from deploys.plan.files import Directory, Entry, ManagedFile
from deploys.plan.hardware import Hardware
from deploys.plan.netplan import our_netdevs
from deploys.plan.placed import FABRIC_SYSCTL, folder
from deploys.plan.ports import LINK_PORT, SHARE_PORT
from deploys.plan.render import unit_file

_FILES = Path(__file__).parents[2] / "files" / "fabric"
# Seconds for a port to find its link.
_LINK_SECONDS = 10


@operation()
def fabric(
    plan: FabricPlan, hardware: Hardware, peer: Host, root: str
) -> Generator[PyinfraCommand, None, None]:
    """Give the twins of the cabled port their addresses, and keep others away from them.

    Both Sparks are judged before either is changed, each by its own run of this operation. What
    was in /etc/netplan is kept in `root`/backups; the LAN's interface is left alone, and should
    it not survive, the former settings return by themselves.

    Args:
        plan: what the fabric should be on this Spark.
        peer: the other Spark, on which this operation runs at the same time.
        root: the folder for our files.
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
        errors = [f"error: {plan.peer} is not fit for the fabric; nothing was changed here."]
    if errors or port is None:
        yield failing("\n".join(errors))
        return

    for difference in fabric_differences(plan, port, own):
        differs(*difference)
    guard = list(_guard(plan, port, own, other, root))
    in_force = is_in_force(plan, port, own)
    if not in_force and (reached := _reached_by(port, own)):
        yield failing(
            f"error: {plan.spark} is reached at {reached}, by the very cable that is to be set "
            "up. Write its address on the LAN into the inventory, as ssh_hostname."
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


def read_fabric(
    spark: Host, hardware: Hardware, root: str, tried: Sequence[Probe] = ()
) -> FabricState:
    """Return the state of one Spark's fabric.

    Args:
        tried: packets that it should send to its peer.
    """
    netdevs = [netdev for port in hardware.fabric_ports for netdev in port]
    return spark.get_fact(Fabric, netdevs=netdevs, root=root, probes=list(tried))


def _settled(hardware: Hardware, peer: Host, root: str) -> tuple[FabricState, FabricState]:
    """Wait a little for links: ports that are switched on, or set anew by the peer, take time."""
    end = time.monotonic() + _LINK_SECONDS
    while True:
        own, other = read_fabric(host, hardware, root), read_fabric(peer, hardware, root)
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
        QuoteString((_FILES / "apply.sh").read_text()),
        "apply",
        *map(QuoteString, arguments),
    )


def _guard(
    plan: FabricPlan, port: Port, own: FabricState, other: FabricState, root: str
) -> Generator[PyinfraCommand, None, None]:
    macs = [other.netdevs[netdev].mac for netdev in port]
    a, b = zip(port, map(str, plan.networks), plan.peer_addresses, macs, strict=True)
    guarded = " ".join([f"{LINK_PORT}:{SHARE_PORT}", *a, *b])
    entries: list[Entry] = [
        Directory(root),
        folder(root, "bin"),
        ManagedFile(f"{root}/bin/fabric-guard", (_FILES / "fabric-guard").read_text()),
        unit_file(_FILES / GUARD, root=root, guarded=guarded),
    ]
    files = [entry.path for entry in entries if isinstance(entry, ManagedFile)]
    state = host.get_fact(Service, unit=GUARD, files=files)
    changes = list(managed_files._inner(entries=entries))
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
