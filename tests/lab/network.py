"""The lab's networks: one LAN with a way out, and the fabric's cables, or its switch.

A Spark's network namespace is made afresh for each boot, as a kernel that starts has no addresses.
Cables are changed by who holds the lab's lock.
"""

import itertools
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.lab.state import RUN, TWINS, Cable, LabError, Spark, State, Together, read, wait_for

LAN = "swlab-lan"
# What each cable is, and a switch: a bridge for each twin.
FABRICS = tuple((f"swlab-fab-{number}a", f"swlab-fab-{number}b") for number in (1, 2, 3))
BRIDGES = (LAN, *itertools.chain(*FABRICS))
HOST = "10.213.0.1"
SUBNET = "10.213.0.0/24"
# Names as on a DGX Spark: the wired LAN port, and the two PCIe paths to each physical fabric port.
LAN_PORT = "enP7s7"
FABRIC_PORTS = (("enp1s0f0np0", "enP2p1s0f0np0"), ("enp1s0f1np1", "enP2p1s0f1np1"))

# FORWARD: on a machine with Docker that chain drops what nobody accepts.
_RULES = (
    ("nat", "POSTROUTING", "-s", SUBNET, "!", "-o", LAN, "-j", "MASQUERADE"),
    ("filter", "FORWARD", "-i", "swlab-+", "-j", "ACCEPT"),
    ("filter", "FORWARD", "-o", "swlab-+", "-j", "ACCEPT"),
)


def number(spark: str) -> int:
    return int(spark.removeprefix("spark"))


def address(spark: str) -> str:
    return f"10.213.0.{10 + number(spark)}"


def lan_end(spark: str) -> str:
    return f"swlab{number(spark)}-lan"


def fabric_ends(spark: str) -> list[list[str]]:
    """Return the names of the outer ends of a Spark's fabric ports, one for each twin of each."""
    return [[f"swlab{number(spark)}-fab-{port}{twin}" for twin in TWINS] for port in (0, 1)]


def delivered(spark: str, together: Together) -> dict[int, Cable]:
    """Return the cable in each port of a Spark: in a ring also that to the Spark before."""
    place = number(spark) - 1
    match together:
        case "switch":
            return {0: Cable()}
        case "ring":
            return {0: Cable(number=place), 1: Cable(number=(place - 1) % 3)}
        case _:
            return {0: Cable(number=place // 2)}


def create() -> None:
    for index, bridge in enumerate(BRIDGES):
        # A fixed address: by default a bridge takes the lowest of its present ports'.
        _ip("link", "add", bridge, "address", mac(0, index), "type", "bridge")
        _no_ipv6(bridge)
        _ip("link", "set", bridge, "up", *(() if bridge == LAN else ("mtu", "9000")))
    _ip("address", "add", f"{HOST}/24", "dev", LAN)
    for table, chain, *rule in _RULES:
        _iptables("-t", table, "-I", chain, *rule)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def remove() -> None:
    """Remove all that `create` and `plug` made, also what a crash has left of it."""
    for table, chain, *rule in _RULES:
        while _iptables("-t", table, "-D", chain, *rule, check=False):
            pass
    for interface in Path("/sys/class/net").glob("swlab*"):
        _ip("link", "delete", interface.name, check=False)


def is_up() -> bool:
    return all(_exists(bridge) for bridge in BRIDGES)


def namespace(spark: str) -> Path:
    """Return the file that stands for a Spark's network; only its supervisor sees it mounted."""
    return RUN / f"{spark}.netns"


def plug(name: str, lab: State) -> None:
    """Give a Spark that is about to boot a new network namespace, its ports wired as written down.

    Runs in the supervisor, in whose mount namespace the network namespace is mounted: with the
    last process of the Spark it all goes away by itself.
    """
    unplug(name)
    file = namespace(name)
    # That of the boot before, if there was one.
    subprocess.run(["umount", str(file)], stderr=subprocess.DEVNULL, check=False)
    file.touch()
    subprocess.run(["unshare", f"--net={file}", "true"], check=True)
    ends = [lan_end(name), *itertools.chain(*fabric_ends(name))]
    ports = (LAN_PORT, *FABRIC_PORTS[0], *FABRIC_PORTS[1])
    for index, (end, port) in enumerate(zip(ends, ports, strict=True)):
        inner = ("peer", "name", port, "address", mac(number(name), index), "netns", str(file))
        _ip("link", "add", end, "type", "veth", *inner)
        # Only frames pass here: the machine itself must not answer on a cable's end.
        _no_ipv6(end)
        Path(f"/proc/sys/net/ipv4/conf/{end}/arp_ignore").write_text("8")
    if not lab.sparks[name].line:
        _ip("link", "set", lan_end(name), "master", LAN)
    _ip("link", "set", lan_end(name), "up")
    wire(lab)
    segment(name, lab.sparks)


def unplug(spark: str) -> None:
    """Remove a Spark's cables; without them its namespace has no way to the others."""
    for end in (lan_end(spark), *itertools.chain(*fabric_ends(spark))):
        if _exists(end):
            _ip("link", "delete", end, check=False)
    if lab := read():
        wire(lab)


def wire(lab: State) -> None:
    """Put all fabric cables into the state that is written down.

    As with a cable between two machines, neither port has a carrier unless both ends are plugged
    in and both machines have power. A switch always has power.
    """
    there = [name for name in lab.sparks if _exists(fabric_ends(name)[0][0])]
    plugged = [cable for name in there for cable in lab.sparks[name].cables.values()]
    for name in there:
        for port, ends in enumerate(fabric_ends(name)):
            cable = lab.sparks[name].cables.get(port)
            if cable is None:
                for end in ends:
                    _ip("link", "set", end, "down")
                continue
            far = [each for each in plugged if each.number == cable.number and each is not cable]
            for twin, end in zip(TWINS, ends, strict=True):
                whole = [twin not in each.cut for each in (cable, *far)]
                linked = whole[0] if lab.together == "switch" else len(whole) == 2 and all(whole)
                bridge = FABRICS[cable.number][TWINS.index(twin)]
                state = "up" if linked else "down"
                _ip("link", "set", end, "master", bridge, "mtu", str(cable.mtu), state)


def segment(name: str, sparks: Mapping[str, Spark]) -> None:
    """Have a Spark's TCP cut its own segments where a cable has a small MTU.

    They travel here joined in one, unless told not to, and then no MTU stops them.
    """
    small = any(cable.mtu < 9000 for each in sparks.values() for cable in each.cables.values())
    for netdev in itertools.chain(*FABRIC_PORTS):
        joined = "off" if small else "on"
        _run(*_inside(name, sparks[name]), "ethtool", "--offload", netdev, "tso", joined)


def set_direct(spark: str, direct: bool) -> None:
    """Connect a Spark's LAN cable to the bridge, or leave its end to a delay line."""
    if _exists(lan_end(spark)):
        _ip("link", "set", lan_end(spark), *(("master", LAN) if direct else ("nomaster",)))


def wait_for_line(spark: str) -> None:
    port = Path(f"/sys/class/net/{LAN}/brif/{line_end(spark)}")
    wait_for(port.exists, 10, f"the delay line of {spark}")


def line_end(spark: str) -> str:
    return f"swlab{number(spark)}-line"


def mac(owner: int, index: int) -> str:
    """Return the locally administered address of a Spark's port; owner 0 has the bridges'."""
    return f"02:5b:1a:b0:{index:02x}:{owner:02x}"


def _inside(name: str, spark: Spark) -> tuple[str, str]:
    """Return the words that run a command in a Spark's network, on this machine's file system."""
    assert spark.supervisor, f"{name} has cables, and nobody who mounted its network"
    return "nsenter", f"--net=/proc/{spark.supervisor.pid}/root{namespace(name)}"


def _exists(interface: str) -> bool:
    return Path("/sys/class/net", interface).exists()


def _no_ipv6(interface: str) -> None:
    switch = Path(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6")
    if switch.exists():
        switch.write_text("1")


def _ip(*arguments: str, check: bool = True) -> bool:
    return _run("ip", *arguments, check=check)


def _iptables(*arguments: str, check: bool = True) -> bool:
    return _run("iptables", "-w", *arguments, check=check)


def _run(*command: str, check: bool = True) -> bool:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise LabError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.returncode == 0
