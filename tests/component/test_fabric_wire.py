"""Who is at the other end of a cable, by packets on a real wire between two network namespaces."""

import subprocess
from collections.abc import Iterator

import pytest

from sparkwright.fabric.state import Probe, Reach, fabric_script, parse_fabric
from tests.clock import patience

MAC = "02:00:00:00:00:0b"


def _inside(namespace: int, *words: str) -> str:
    enter = ["nsenter", "--net", f"--target={namespace}"]
    return subprocess.check_output([*enter, *words], text=True, timeout=patience())


@pytest.fixture
def near() -> Iterator[int]:
    """A namespace with 192.168.100.11, cabled to another one that has an address of its own."""
    with (
        subprocess.Popen(["unshare", "--net", "sleep", "600"]) as one,
        subprocess.Popen(["unshare", "--net", "sleep", "600"]) as other,
    ):
        try:
            yield _cabled(one.pid, other.pid)
        finally:
            one.kill()
            other.kill()


def _cabled(near: int, far: int) -> int:
    own = subprocess.check_output(["readlink", "/proc/self/ns/net"])
    for each in (near, far):
        while subprocess.check_output(["readlink", f"/proc/{each}/ns/net"]) == own:
            pass
    _inside(
        near, *f"ip link add name near0 type veth peer name far0 address {MAC} netns {far}".split()
    )
    for namespace, name in ((near, "near0"), (far, "far0")):
        _inside(namespace, *f"ip address add 192.168.100.11/24 dev {name}".split())
        _inside(namespace, *f"ip link set {name} up".split())
    return near


def test_another_pairs_spark_of_the_same_number(near: int) -> None:
    probe = Probe("near0", "192.168.100.12", "192.168.100.11", 1500)
    script = fabric_script(netdevs=["near0"], root="/nowhere", probes=[probe])
    state = parse_fabric(_inside(near, "sh", "-c", script).splitlines())
    assert state.reach == {"192.168.100.12": Reach("near0", False, False, "-", MAC)}
