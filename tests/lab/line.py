"""A delay line: carries the frames of one Spark's LAN cable, each some time later, or not at all.

It does what the kernel's netem does, which not every kernel has: this program sits between the
cable's end and an interface of its own on the bridge. It stays while the Spark reboots.
"""

import argparse
import fcntl
import os
import random
import select
import socket
import struct
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress

from tests.lab.network import LAN, lan_end, line_end

# linux/if_tun.h and linux/if_packet.h; Python's socket module lacks these names.
_TUNSETIFF = 0x400454CA
_TUNSETOFFLOAD = 0x400454D0
_IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
_TUN_F_CSUM, _TUN_F_TSO4, _TUN_F_TSO6 = 1, 2, 4
_SOL_PACKET, _PACKET_VNET_HDR, _PACKET_IGNORE_OUTGOING = 263, 15, 23
_ETH_P_ALL = 3
# The largest segment that the kernel hands over whole, with its headers.
_FRAME = 70_000


class Way:
    """One direction: frames wait here until they are due."""

    def __init__(self, source: int, target: int, delay: float, loss: float) -> None:
        self.source, self.target, self.delay, self.loss = source, target, delay, loss
        self._waiting: deque[tuple[float, bytes]] = deque()

    def take(self, now: float) -> None:
        frame = os.read(self.source, _FRAME)
        if random.random() >= self.loss:
            self._waiting.append((now + self.delay, frame))

    def give(self, now: float) -> float | None:
        """Write all frames that are due; return when the next one is."""
        while self._waiting:
            due, frame = self._waiting[0]
            if due > now:
                return due
            self._waiting.popleft()
            # A full queue drops, as a wire's does.
            with suppress(BlockingIOError):
                os.write(self.target, frame)
        return None


def open_tap(name: str) -> int:
    """Create an interface; what the kernel sends through it can be read here, and the reverse."""
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    flags = _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR
    fcntl.ioctl(tap, _TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    fcntl.ioctl(tap, _TUNSETOFFLOAD, _TUN_F_CSUM | _TUN_F_TSO4 | _TUN_F_TSO6)
    return tap


def open_cable(end: str) -> socket.socket:
    """Open a cable's end for raw frames.

    Both sides carry the header in which the kernel says what it left to the hardware (checksums,
    segmentation): passed on as it is, the receiving kernel knows it too.
    """
    cable = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    cable.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    cable.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
    cable.bind((end, _ETH_P_ALL))
    cable.setblocking(False)
    return cable


def carry(cable: int, tap: int, delay: float, loss: float) -> None:
    ways = {cable: Way(cable, tap, delay, loss), tap: Way(tap, cable, delay, loss)}
    while True:
        now = time.monotonic()
        times = [due for way in ways.values() if (due := way.give(now)) is not None]
        patience = max(0.0, min(times) - time.monotonic()) if times else None
        for source in select.select(list(ways), [], [], patience)[0]:
            ways[source].take(time.monotonic())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spark")
    parser.add_argument("--delay", type=float, required=True, metavar="SECONDS")
    parser.add_argument("--loss", type=float, default=0, metavar="PART")
    options = parser.parse_args()
    tap = open_tap(line_end(options.spark))
    subprocess.run(["ip", "link", "set", line_end(options.spark), "master", LAN, "up"], check=True)
    while True:
        try:
            with open_cable(lan_end(options.spark)) as cable:
                carry(cable.fileno(), tap, options.delay, options.loss)
        except OSError:
            # The Spark is off or boots: frames for it are lost until its cable is there again.
            time.sleep(0.05)
            while select.select([tap], [], [], 0)[0]:
                os.read(tap, _FRAME)


if __name__ == "__main__":
    sys.exit(main())
