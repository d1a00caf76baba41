"""Sparks with a fabric, and what is found wrong with one."""

from dataclasses import replace
from ipaddress import IPv4Interface, IPv4Network

from sparkwright.common.hardware import HARDWARE
from sparkwright.common.placed import NETPLAN
from sparkwright.declared.fleet.fabric_plan import FabricPlan, netplan_text
from sparkwright.network.fabric.check import fabric_findings
from sparkwright.network.fabric.state import FabricState, Netdev, NetplanFile, Rdma, Route
from tests.makers.models import changed

GB10 = HARDWARE["gb10"]
PORT_0, PORT_1 = GB10.fabric_ports
SUBNETS = ("192.168.100.0/24", "192.168.101.0/24")
PLAN = FabricPlan("spark-a", ("spark-a", "spark-b"), SUBNETS, 9000, 80)
LINK = PLAN.link("spark-b")

UP = Netdev(up=True, carrier=True, speed=200_000, mtu=1500, mac="")
UNPLUGGED = replace(UP, carrier=False, speed=None)


def spark(number=1, **netdevs):
    """A Spark from the factory, cabled in port 0; `netdevs` replaces single interfaces."""
    found = dict.fromkeys(PORT_0, UP) | dict.fromkeys(PORT_1, UNPLUGGED) | netdevs
    found = {
        name: replace(netdev, mac=f"4c:bb:47:00:0{number}:0{place}")
        for place, (name, netdev) in enumerate(found.items())
        if netdev
    }
    return FabricState(
        netdevs=found,
        addresses=(("enP7s7", IPv4Interface("192.168.1.20/24")),),
        routes=(Route("enP7s7", None), Route("enP7s7", IPv4Network("192.168.1.0/24"))),
        netplan=(NetplanFile("/etc/netplan/01-lan.yaml", "root:600", LAN),),
        profiles=(),
        rdma={
            name: Rdma(device, "1", "ACTIVE", "Ethernet", ())
            for name, device in zip(PORT_0, ("rocep1s0f0", "roceP2p1s0f0"), strict=True)
        },
        tool=True,
        record="",
        guarded=False,
        reach={},
    )


LAN = "network: {version: 2, ethernets: {enP7s7: {dhcp4: true}}}"
A, B = PORT_0


def found(own, peer=None):
    states = {"spark-a": own, "spark-b": peer or spark(2)}
    return [str(finding) for finding in fabric_findings(PLAN, GB10, states)]


def set_up(port, text=None):
    own = joined(PLAN, (port,))
    return changed(own, netplan=(changed(own.netplan[0], text=text),)) if text else own


def joined(plan, ports, number=1):
    """Return a Spark of a group as planned, with its cables in these ports."""
    netdevs = [netdev for port in ports for netdev in port]
    own = spark(number, **dict.fromkeys(netdevs, replace(UP, mtu=plan.mtu)))
    routes = [Route(netdevs[place], IPv4Network(to)) for place, to, _ in plan.routes]
    return changed(
        own,
        addresses=tuple(zip(netdevs, map(IPv4Interface, plan.interfaces), strict=True)),
        routes=(*own.routes, *routes),
        netplan=(NetplanFile(NETPLAN, "root:600", netplan_text(plan, netdevs)),),
    )
