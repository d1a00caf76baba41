"""The lab's networks: one LAN with a way out, two fabric segments, and each Spark's cables to them.

A Spark's network namespace is made afresh for each boot, as a kernel that starts has no addresses.
"""

import subprocess
from pathlib import Path

from tests.lab.state import RUN, LabError, Spark, wait_for

LAN = "swlab-lan"
FABRIC = ("swlab-fab-a", "swlab-fab-b")
HOST = "10.213.0.1"
SUBNET = "10.213.0.0/24"
# Names as on a DGX Spark: the wired LAN port, and the two PCIe paths to the first fabric port.
LAN_PORT = "enP7s7"
FABRIC_PORTS = ("enp1s0f0np0", "enP2p1s0f0np0")
# Jumbo frames on all outer ends: one of 1500 would swallow large frames without an error.
FABRIC_MTU = "9000"

# FORWARD: on a machine with Docker that chain drops what nobody accepts.
_RULES = (
    ("nat", "POSTROUTING", "-s", SUBNET, "!", "-o", LAN, "-j", "MASQUERADE"),
    ("filter", "FORWARD", "-i", "swlab-+", "-j", "ACCEPT"),
    ("filter", "FORWARD", "-o", "swlab-+", "-j", "ACCEPT"),
)


def number(spark: str) -> int:
    """Return 1 for spark1, and so on."""
    return int(spark.removeprefix("spark"))


def address(spark: str) -> str:
    """Return a Spark's address on the LAN."""
    return f"10.213.0.{10 + number(spark)}"


def lan_end(spark: str) -> str:
    """Return the name of the outer end of a Spark's LAN cable."""
    return f"swlab{number(spark)}-lan"


def fabric_ends(spark: str) -> tuple[str, str]:
    """Return the names of the outer ends of a Spark's fabric cable, one for each twin."""
    return f"swlab{number(spark)}-fab-a", f"swlab{number(spark)}-fab-b"


def create() -> None:
    """Make the bridges and the way out."""
    for bridge in (LAN, *FABRIC):
        # A fixed address: by default a bridge takes the lowest of its present ports'.
        _ip("link", "add", bridge, "address", mac(0, bridge), "type", "bridge")
        _no_ipv6(bridge)
        _ip("link", "set", bridge, "up", *(("mtu", FABRIC_MTU) if bridge in FABRIC else ()))
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
    """Tell whether the bridges are there."""
    return all(Path("/sys/class/net", bridge).exists() for bridge in (LAN, *FABRIC))


def namespace(spark: str) -> Path:
    """Return the file that stands for a Spark's network; only its supervisor sees it mounted."""
    return RUN / f"{spark}.netns"


def plug(name: str, spark: Spark) -> None:
    """Give a Spark that is about to boot a new network namespace, its ports wired as `spark` says.

    Runs in the supervisor, in whose mount namespace the network namespace is mounted: with the
    last process of the Spark it all goes away by itself.
    """
    unplug(name)
    file = namespace(name)
    # That of the boot before, if there was one.
    subprocess.run(["umount", str(file)], stderr=subprocess.DEVNULL, check=False)
    file.touch()
    subprocess.run(["unshare", f"--net={file}", "true"], check=True)
    ends = (lan_end(name), *fabric_ends(name))
    for end, port, bridge in zip(ends, (LAN_PORT, *FABRIC_PORTS), (LAN, *FABRIC), strict=True):
        mtu = ("mtu", FABRIC_MTU) if bridge in FABRIC else ()
        inner = ("peer", "name", port, "address", mac(number(name), bridge), "netns", str(file))
        _ip("link", "add", end, *mtu, "type", "veth", *inner)
        # Only frames pass here: the machine itself must not answer on a cable's end.
        _no_ipv6(end)
        Path(f"/proc/sys/net/ipv4/conf/{end}/arp_ignore").write_text("8")
        if bridge in FABRIC or not spark.line:
            _ip("link", "set", end, "master", bridge)
    _ip("link", "set", lan_end(name), "up")
    set_cable(name, spark.cable)


def unplug(spark: str) -> None:
    """Remove a Spark's cables; without them its namespace has no way to the others."""
    for end in (lan_end(spark), *fabric_ends(spark)):
        if Path("/sys/class/net", end).exists():
            _ip("link", "delete", end, check=False)


def set_cable(spark: str, whole: bool) -> None:
    """Cut or mend a Spark's fabric cable: both twins are on it."""
    for end in fabric_ends(spark):
        if Path("/sys/class/net", end).exists():
            _ip("link", "set", end, "up" if whole else "down")


def set_direct(spark: str, direct: bool) -> None:
    """Connect a Spark's LAN cable to the bridge, or leave its end to a delay line."""
    if Path("/sys/class/net", lan_end(spark)).exists():
        _ip("link", "set", lan_end(spark), *(("master", LAN) if direct else ("nomaster",)))


def wait_for_line(spark: str) -> None:
    """Wait until a Spark's delay line has its interface on the bridge."""
    port = Path(f"/sys/class/net/{LAN}/brif/{line_end(spark)}")
    wait_for(port.exists, 10, f"the delay line of {spark}")


def line_end(spark: str) -> str:
    """Return the name of the interface through which a Spark's delay line reaches the bridge."""
    return f"swlab{number(spark)}-line"


def mac(owner: int, bridge: str) -> str:
    """Return a locally administered address; owner 0 is the bridge itself."""
    return f"02:5b:1a:b0:{(LAN, *FABRIC).index(bridge):02x}:{owner:02x}"


def _no_ipv6(interface: str) -> None:
    switch = Path(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6")
    if switch.exists():
        switch.write_text("1")


def _ip(*arguments: str, check: bool = True) -> bool:
    return _run("ip", *arguments, check=check)


def _iptables(*arguments: str, check: bool = True) -> bool:
    return _run("iptables", "-w", *arguments, check=check)


def _run(*command: str, check: bool) -> bool:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise LabError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.returncode == 0
