"""record ROOT [OWN PEER]: write what this Spark is, a line a second, into ROOT/state.

At its start it judges the end of the previous boot, unless that was in order: ROOT/state/
last-down.json. With their addresses, the Sparks of a pair keep each other's last minutes as well.

To ext4 a write is 20 KiB: our block, three of the journal, as the time of the file changes, and the
inode's. So there is one in 20 s, 88 MB a day; and, up to a bound, at once where things go wrong.
"""

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread

from host.common.atomic import replace
from host.common.command_line import words
from host.common.log import show
from host.common.seat import SEATS
from host.engine.crash_guard import boot_id
from host.insight.recorder.judge import NOTED, SECONDS, judge, trouble
from host.insight.recorder.ring import BLOCK, ROOM, Line, Ring, line, parse
from host.state.engine_api import ask
from host.state.engines import current
from host.state.readers import whole, word

PORT = 29505
# Seconds between two writes. Early ones at once, and seconds in which there may be one more: 10 MB
# a day. Seconds between two looks at the engine's steps.
SYNC, EARLY, AGAIN, LOOK = 20, 20, 180, 15
# Lines of the other Spark that are kept, and seconds without any after which they are written.
KEPT, SILENCE = 300, 10
# One that hangs is killed within the hour, and whatever ends it, the next one begins.
SMI = (
    "while :; do timeout --foreground -s KILL 1h nvidia-smi --id=0 --loop=1 --query-gpu=power.draw,"
    "temperature.gpu,clocks.sm --format=csv,noheader,nounits; sleep 60; done 2>/dev/null"
)
KMSG = "/dev/kmsg"
_MEMORY = re.compile(r"^(MemTotal|MemAvailable|SwapTotal|SwapFree): +(\d+)", re.MULTILINE)
_IP_FREEBIND = 15


class Sources:
    """What is read in a second; nothing of it waits."""

    steps: float | None = None

    def __init__(self, root: Path) -> None:
        self.root, self._gpu, self._fresh = root, gpu(""), 0.0
        self._smi, told = os.pipe()
        os.set_blocking(self._smi, False)
        self._gpus = subprocess.Popen(["sh", "-c", SMI], stdin=subprocess.DEVNULL, stdout=told)
        self.kernel = _opened(KMSG)
        with suppress(OSError):
            os.lseek(self.kernel or -1, 0, os.SEEK_END)
        pressures = (f"pressure/{each}" for each in ("memory", "io", "cpu"))
        self._proc = [_opened(f"/proc/{each}") for each in ("meminfo", *pressures)]

    def line(self, now: tuple[int, int]) -> str:
        """Return the line of this second."""
        if told := _read(self._smi, 1 << 16).splitlines():
            self._gpu, self._fresh = gpu(told[-1]), now[1] + 3
        memory, *pressures = (_read(each, 4096, 0) for each in self._proc)
        mib = {name: int(kib) // 1024 for name, kib in _MEMORY.findall(memory)}
        self.total = mib["MemTotal"]
        # "some avg10=1.53 avg60=0.87 …"
        waits = (float(each[11:].split(" ", 1)[0]) if each else None for each in pressures)
        swap, disk = mib["SwapTotal"] - mib["SwapFree"], os.statvfs(self.root)
        free = disk.f_bavail * disk.f_frsize >> 20
        shown = self._gpu if now[1] < self._fresh else gpu("")
        return line((*now, *shown, mib["MemAvailable"], *waits, swap, free, self.steps))

    def words(self) -> list[str]:
        """Return the kernel's new messages that are worth a line: a broken card says thousands."""
        records = iter(partial(_read, self.kernel, 8192), "")
        texts = (
            each.partition(";")[2].partition("\n")[0]
            for _, each in zip(range(100), records, strict=False)
        )
        return [each for each in texts if NOTED.search(each)]

    def look(self) -> None:
        """Read the steps that engines have made."""
        found = []
        for place in (str(self.root), *map(str, self.root.glob(f"{SEATS}/*"))):
            if release := current(place):
                told = ask(place, release, "/metrics", patience=2)
                found += told.split("\nvllm:iteration_tokens_total_count")[1:]
        with suppress(ValueError, IndexError):
            counts = [float(each.split("\n", 1)[0].split()[-1]) for each in found]
            self.steps = sum(counts) if counts else None


def clock() -> tuple[int, int]:
    """Return the seconds since the epoch, and since the boot."""
    return round(time.time()), round(time.monotonic())


def gpu(told: str) -> list[float | None]:
    """Return W, °C and MHz by a line of nvidia-smi's; None for each that is none."""
    found = [re.fullmatch(r" *(\d{1,6}(\.\d{1,3})?) *", each) for each in told.split(",")]
    return [float(each[1]) if each else None for each in (*found, None, None, None)][:3]


def _opened(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None


def _read(file: int | None, most: int, at: int | None = None) -> str:
    """Return what a file has now; "" where there is nothing."""
    found = b""
    # Also where a record of the kernel's was overwritten.
    with suppress(OSError):
        found = os.read(file or -1, most) if at is None else os.pread(file or -1, most, at)
    return found.decode("utf-8", "replace")


class Peer:
    """The other Spark of a pair: it gets each line, and its own last minutes are kept here.

    Only it reaches this port (fabric-guard); what it says is bounded, and has to be lines.
    """

    def __init__(self, path: Path, own: str, other: str) -> None:
        self._path, self._other, self._heard = path, (other, PORT), 0.0
        self._lines = deque[str](maxlen=KEPT)
        self._socket = socket.socket(type=socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
        self._socket.bind((own, PORT))

    def exchange(self, lines: list[str], now: float) -> None:
        """Send lines, take what came, and once nothing comes any more, write that down."""
        with suppress(OSError):
            self._socket.sendto("\n".join(lines).encode("ascii", "replace")[:BLOCK], self._other)
        with suppress(OSError):
            for _ in range(20):
                told, address = self._socket.recvfrom(BLOCK)
                new = told.decode("ascii", "replace").split("\n")
                if address == self._other and (sound := [each for each in new if parse([each])]):
                    self._lines += sound
                    self._heard = now
        if self._lines and now - self._heard > SILENCE:
            with suppress(OSError):
                replace(self._path, "\n".join([*self._lines, ""]), durable=True)
            self._lines.clear()


def hard_end(root: Path, ring: Ring, boot: str, total: float, said: list[str]) -> None:
    """Judge the last life, unless it is this boot's or ended in order.

    Args:
        said: the kernel's last words of it that came by another way than the ring, as by pstore.
    """
    blocks = ring.blocks()
    if not blocks or blocks[-1].boot == boot or blocks[-1].ended:
        return
    texts = [text for each in blocks if each.boot == blocks[-1].boot for text in each.lines]
    if not (lines := parse(texts)):
        return
    final = lines[-1].now
    verdict = judge([*lines, *(Line(final, each) for each in said)], total)
    back = time.time()
    seconds = [each for each in texts for one in parse([each]) if final["up"] - one.up < SECONDS]
    show(f"this Spark went down hard: {verdict.cause}: {verdict.why}")
    down = {"at": min(final["time"], back), "back": back, **verdict._asdict(), "lines": seconds}
    # Without any room on the disk, the journal has it.
    with suppress(OSError):
        replace(root / "state/last-down.json", json.dumps(down) + "\n", durable=True)


class Recorder:
    """The loop of a second, and what waits for the next write."""

    def __init__(self, root: Path, boot: str, peer: Peer | None) -> None:
        self._boot, self._peer, self._sources = boot, peer, Sources(root)
        self._ring = Ring(root / "state/flight-recorder")
        self._waiting, self._level, self._tokens = list[str](), 0, float(EARLY)
        self._written, self._looked = -float(SYNC), 0.0
        self._writer = self._looker = Thread()
        self._sources.line(clock())
        # WDIOF_CARDRESET; a GB10's may not tell it (NVIDIA/open-gpu-kernel-modules#1358).
        told = Path("/sys/class/watchdog").glob("*/bootstatus")
        reset = any(whole(word(str(each))) & 0x20 for each in told)
        hard_end(root, self._ring, boot, self._sources.total, ["watchdog reset"] * reset)

    def run(self) -> None:
        """Write until SIGTERM; the last block says that the end was in order."""
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        try:
            while True:
                self._second()
        except SystemExit:
            if self._writer.is_alive():
                self._writer.join(5)
            self._write(self._waiting, ended=True)
            raise

    def _second(self) -> None:
        up = time.monotonic()
        text = self._sources.line(clock())
        level = trouble(parse([text])[0].now, self._sources.total)
        self._add([text], up, level > self._level, level)
        if up - self._looked >= LOOK and not self._looker.is_alive():
            self._looked, self._looker = up, Thread(target=self._sources.look, daemon=True)
            self._looker.start()
        end = int(up) + 1.0
        log = [] if self._sources.kernel is None else [self._sources.kernel]
        if select.select(log, [], [], max(0, end - time.monotonic()))[0]:
            said = [line(clock(), each) for each in self._sources.words()]
            # The readings of 20 s need less than half of a block.
            if said and sum(map(len, self._waiting)) < BLOCK // 2:
                self._add(said[:10], up, True, self._level)
            time.sleep(max(0, end - time.monotonic()))

    def _add(self, lines: list[str], up: float, urgent: bool, level: int) -> None:
        """Have lines on the other Spark, and on the disk once it is time."""
        if self._peer:
            self._peer.exchange(lines, up)
        self._waiting += lines
        while sum(map(len, self._waiting)) + len(self._waiting) > ROOM:
            # A disk that hangs, or a flood.
            del self._waiting[0]
        early = urgent and self._tokens >= 1
        if (up - self._written < SYNC and not early) or self._writer.is_alive():
            return
        passed, self._written = min(up - self._written, SYNC), up
        self._tokens = min(EARLY, self._tokens + passed / AGAIN) - early
        self._level, block, self._waiting = level, self._waiting, []
        self._writer = Thread(target=self._write, args=(block,), daemon=True)
        self._writer.start()

    def _write(self, block: list[str], *, ended: bool = False) -> None:
        try:
            self._ring.write(self._boot, block, ended=ended)
        except OSError as error:
            show(f"the last lines are not on the disk: {error}")


def command() -> None:
    """Runs until it is stopped."""
    folder, *pair = words(__doc__, "ROOT", rest="ADDRESS")
    root = Path(folder)
    try:
        peer = Peer(root / "state/flight-recorder.peer", *pair) if pair else None
        recorder = Recorder(root, boot_id(), peer)
    except OSError as error:
        sys.exit(f"the flight recorder cannot begin: {error}")
    recorder.run()
