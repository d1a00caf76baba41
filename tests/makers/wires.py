"""Sparks on a switch, each a network of its own with a cable that lets so much through, no more."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from tests.clock import patience

# Bits a second of each cable, in either direction: little enough that this machine's processors,
# which all Sparks share here, have time left.
RATE = round(40_000_000 / patience(1))
_LIMIT = f"root tbf rate {RATE} burst 64k latency 100ms"
_NETWORK = ("unshare", "--net", "sh", "-c", "ip link set lo up && echo && exec cat")


class Wires:
    def __init__(self, networks: Sequence["subprocess.Popen[bytes]"]) -> None:
        self._networks = networks

    @staticmethod
    def address(spark: int) -> str:
        return f"192.168.100.{11 + spark}"

    def begin(self, spark: int, command: Sequence[str], **how: Any) -> "subprocess.Popen[str]":
        """Start a program on a Spark's network."""
        words = ["nsenter", f"--net=/proc/{self._networks[spark].pid}/ns/net", *command]
        return subprocess.Popen(words, text=True, **how)


def _network() -> "subprocess.Popen[bytes]":
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    made = subprocess.Popen(_NETWORK, **pipes)  # type: ignore[call-overload]
    if made.stdout.read(1) != b"\n":
        pytest.skip("needs the right to make networks")
    found: subprocess.Popen[bytes] = made
    return found


@contextmanager
def wires(sparks: int) -> Iterator[Wires]:
    if os.geteuid():
        pytest.skip("needs root, for networks")
    with ExitStack() as stack:
        found = [stack.enter_context(_network()) for _ in range(sparks + 1)]
        # Before those wait for it.
        stack.callback(lambda: [each.kill() for each in found])
        *own, switch = found
        lines = ["ip link add br0 type bridge", "ip link set br0 up"]
        for number, each in enumerate(own):
            port, inside = f"port{number}", f"nsenter --net=/proc/{each.pid}/ns/net"
            lines += [
                f"ip link add {port} type veth peer name fabric netns {each.pid}",
                f"ip link set {port} master br0 up",
                f"{inside} ip address add {Wires.address(number)}/24 dev fabric",
                f"{inside} ip link set fabric up",
                f"tc qdisc add dev {port} {_LIMIT}",
                f"{inside} tc qdisc add dev fabric {_LIMIT}",
            ]
        script = ["nsenter", f"--net=/proc/{switch.pid}/ns/net", "sh", "-ec", "\n".join(lines)]
        made = subprocess.run(script, capture_output=True, text=True, check=False)
        if made.returncode:
            pytest.skip(f"needs cables that let only so much through: {made.stderr.strip()}")
        yield Wires(own)
