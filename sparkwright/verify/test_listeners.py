"""What others reach of a Spark: every socket is on the list, and the engine is behind its guard."""

import pytest
from testinfra.host import Host

from sparkwright.insight.doctor.listeners import LISTENING, Listening, judged, others, unguarded
from sparkwright.plan.release.container import slice_of
from sparkwright.plan.release.release import Release
from sparkwright.run.spark import SparkTarget
from sparkwright.verify.plugin import Proved
from sparkwright.verify.sparks import part_of

# A program within the guard asks the network's next host, and itself by its own address there. One
# that is not let out gets no answer at all; without the guard it is refused, or answered.
_ASK = """
import socket, sys
address = sys.argv[1]
with socket.create_server(("0.0.0.0", 0)) as server:
    for host, seconds in (("127.0.0.1", 10), (address, 2)):
        try:
            socket.create_connection((host, server.getsockname()[1]), seconds).close()
            print(host, "reached")
        except TimeoutError:
            print(host, "silent")
"""


@pytest.fixture
def listening(host: Host) -> Listening:
    """All that listens on the Spark."""
    return part_of(host, LISTENING)


def test_every_listener_is_on_the_list(
    listening: Listening, target: SparkTarget, proved: Proved
) -> None:
    kinds: dict[str, list[str]] = {}
    for socket, kind in judged(listening, target.may_listen):
        kinds.setdefault(kind, []).append(str(socket))
    assert "astray" not in kinds, kinds["astray"]
    foreign = ", ".join(others(listening, target.may_listen)) or "nothing"
    ours = len(kinds.get("ours", ()))
    proved(f"{ours} sockets of ours, all on the list; not ours, and open to the LAN: {foreign}")


def test_the_engine_is_guarded(
    host: Host, listening: Listening, release: Release, proved: Proved
) -> None:
    """By a program of our own in the same slice, as the kernel treats it."""
    assert unguarded(listening) == []
    address = host.check_output("ip -4 -o addr show scope global | awk '{print $4; exit}'")
    group = slice_of(len(release.ranks.sparks))
    unit = f"systemd-run --quiet --collect --pipe --wait --slice={group}"
    said = host.check_output(f"{unit} python3 -c '{_ASK}' {address.partition('/')[0]}")
    alone = "silent" if release.ranks.fabric else "reached"
    assert said.split() == ["127.0.0.1", alone, address.partition("/")[0], "silent"]
    proved("what engines open is closed to the LAN, and they reach nobody there")
