"""The lab's fabric: two Sparks, the cable between them, and what may happen to it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.clock import patience
from tests.driver import fabric
from tests.driver.pairs import Pair
from tests.driver.sparks import eventually
from tests.lab.spark import Handle

pytestmark = pytest.mark.lab

# Seconds without a byte: larger packets vanish.
SILENCE = patience(5)
# One side takes all and the other sends ten MB: what a check by small packets cannot see.
TAKE = f"""
import socket
with socket.create_server(("192.168.100.10", 5999)) as server:
    server.settimeout({patience(30)})
    connection = server.accept()[0]
    connection.settimeout({SILENCE})
    while connection.recv(65536):
        pass
"""
SEND = f"""
import socket, time
deadline = time.monotonic() + {patience(30)}
while True:
    try:
        connection = socket.create_connection(("192.168.100.10", 5999), timeout={SILENCE})
        break
    except ConnectionRefusedError:
        # The other side is not there yet.
        if time.monotonic() > deadline:
            raise
        time.sleep(0.1)
with connection:
    connection.sendall(bytes(10**7))
"""


@pytest.fixture(scope="module")
def two(pair: Pair) -> Iterator[tuple[Handle, Handle]]:
    """Two Sparks from the factory, addressed on both fabric twins; reset in the end."""
    pair.each(Handle.reset)
    fabric.address(*pair.both)
    yield pair.both
    pair.each(Handle.reset)


def carries(near: Handle, far: Handle) -> bool:
    """Tell whether ten MB come from one Spark to another."""
    with ThreadPoolExecutor() as pool:
        taken = pool.submit(near.run, "python3 -", stdin=TAKE, check=False)
        sent = pool.submit(far.run, "python3 -", stdin=SEND, check=False)
    return taken.result().returncode == sent.result().returncode == 0


def test_one_twin_cut(two):
    near, far = two
    far.cable(False, twin="b")
    assert fabric.carriers(near) == fabric.carriers(far) == "1000"
    assert fabric.received(near, "192.168.100.11") == 3
    # A frame on its way may still arrive.
    eventually(lambda: fabric.received(near, "192.168.101.11") == 0, "silence of the twin")
    far.cable(True)
    fabric.wait(near)


def test_small_packets_alone_pass_a_black_hole_also_after_a_reboot(two):
    near, far = two
    assert carries(near, far)
    far.mtu(1500)
    assert not carries(near, far)
    far.reboot()
    fabric.wait(near)
    for spark, address in ((near, "192.168.100.11"), (far, "192.168.101.10")):
        assert fabric.received(spark, address, "-M do -s 1472") == 3
        assert fabric.received(spark, address, "-M do -s 8972") == 0
    far.mtu()
    assert fabric.received(near, "192.168.101.11", "-M do -s 8972") == 3
    assert carries(near, far)
