"""record ROOT [OWN PEER]: write what this Spark is, a line a second, into ROOT/state.

Standard input is what nvidia-smi says. At its start it judges the end of the previous boot, if that
left ROOT/state/recording. Each Spark of a pair has the lines of the other as well, after "> ".

A write is 20 KiB on ext4 (our block, four of the journal and the inode): one in 20 s, 88 MB a day.
"""

import json
import os
import socket
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from threading import Thread

from host.common.atomic import replace
from host.common.command_line import words
from host.common.log import show
from host.common.seat import SEATS
from host.engine.crash_guard import boot_id
from host.insight.recorder.judge import NOTED, SECONDS, judge
from host.insight.recorder.ring import HEAD, Line, Ring, line, lines, parse
from host.state.engine_api import ask, samples
from host.state.engines import current
from host.state.pstore import pstore
from host.state.readers import free_bytes, meminfo, whole, word

PORT = 29505
# Seconds between two writes, and between two early ones. Lines and messages of a Spark in a write.
SYNC, AGAIN, LINES, MESSAGES = 20, 180, 25, 5
KMSG = "/dev/kmsg"
_IP_FREEBIND = 15


def drained(file: int) -> list[str]:
    """Return what can be read without waiting; of the kernel's log, each record alone."""
    found: list[str] = []
    # There is no more, or the kernel has overwritten it.
    with suppress(OSError):
        while len(found) < 100:
            found.append(os.read(file, 8192).decode("utf-8", "replace"))
    return found


def steps(root: Path) -> float | None:
    """Return the steps of a Spark's engines; None where no engine answers."""
    found: list[float] = []
    for place in (str(root), *map(str, root.glob(f"{SEATS}/*"))):
        if release := current(place):
            said = ask(place, release, "/metrics", patience=2)
            found += [value for *_, value in samples(said, ["iteration_tokens_total_count"])]
    return sum(found) if found else None


def hard_end(root: Path, boot: str) -> None:
    """Judge a life that did not end in order into ROOT/state/last-down.json."""
    life, last = word(str(root / "state/recording")), lines(root / "state/flight-recorder")
    if life in ("", boot) or not last:
        return
    final, back = last[-1].now, time.time()
    # WDIOF_CARDRESET; a GB10's may not set it (NVIDIA/open-gpu-kernel-modules#1358).
    flags = Path("/sys/class/watchdog").glob("*/bootstatus")
    said = ["watchdog reset"] if any(whole(word(str(each))) & 0x20 for each in flags) else []
    said += [text for each in pstore() if each["at"] > final["time"] for text in each["lines"]]
    told = [*last, *(Line("", final, each[:160]) for each in said)]
    cause, why = judge(told, meminfo()["MemTotal"] >> 20)
    show(f"this Spark went down hard: {cause}: {why}")
    seconds = [each.text for each in last if final["up"] - each.now["up"] < SECONDS]
    down = {"at": min(final["time"], back), "back": back, "cause": cause, "why": why}
    down["lines"] = [HEAD, *seconds]
    # Without any room on the disk, the journal has it.
    with suppress(OSError):
        replace(root / "state/last-down.json", json.dumps(down) + "\n", durable=True)
        replace(root / "state/last-down.lines", "\n".join(each.text for each in last))


class Recorder:
    """The loop of a second, and the lines that wait for the next write."""

    _steps: float | None = None

    def __init__(self, root: Path, own: str = "", peer: str = "") -> None:
        self._root, self._peer, self._ring = root, peer, Ring(root / "state/flight-recorder")
        self._own, self._others = deque[str](maxlen=LINES), deque[str](maxlen=LINES)
        self._written, self._early, self._urgent = -float(SYNC), -float(AGAIN), False
        self._writer, self._gpu, self._until, self._log = Thread(), "", 0.0, -1
        os.set_blocking(sys.stdin.fileno(), False)
        with suppress(OSError):
            self._log = os.open(KMSG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._log, 0, os.SEEK_END)
        self._socket = socket.socket(type=socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        if peer:
            # Also while the link is down.
            self._socket.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
            self._socket.bind((own, PORT))

    def second(self) -> None:
        """Have a second's lines on the other Spark, and on the disk once it is time."""
        up, now = time.monotonic(), (round(time.time()), int(time.monotonic()))
        records = (each.partition(";")[2].partition("\n")[0] for each in drained(self._log))
        room = MESSAGES - sum(" ! " in each for each in self._own)
        said = [line(now, each) for each in records if NOTED.search(each)][: max(0, room)]
        self._own += (texts := [self._readings(now), *said])
        if self._peer:
            with suppress(OSError):
                self._socket.connect((self._peer, PORT))
                self._socket.send("\n".join(texts).encode())
            came = "\n".join(drained(self._socket.fileno())).split("\n")
            self._others += [f"> {each.text}" for each in parse(came)]
        self._urgent |= bool(said)
        early = self._urgent and up - self._early >= AGAIN
        if (early or up - self._written >= SYNC) and not self._writer.is_alive():
            self._written, self._early = up, up if early else self._early
            self._urgent, block = False, [*self._own, *self._others]
            self._own.clear()
            self._others.clear()
            self._writer = Thread(target=self._write, args=(block,), daemon=True)
            self._writer.start()
        time.sleep(max(0, now[1] + 1 - time.monotonic()))

    def _readings(self, now: tuple[int, int]) -> str:
        if said := "".join(drained(sys.stdin.fileno())).rstrip():
            self._gpu, self._until = said.rpartition("\n")[2], now[1] + 3
        gpu = [*(self._gpu.split(",") if now[1] < self._until else ()), "", "", ""][:3]
        pressures = (word(f"/proc/pressure/{each}") for each in ("memory", "io", "cpu"))
        # "some avg10=1.53 avg60=0.87 …"
        waits = (each.partition("avg10=")[2].partition(" ")[0] for each in pressures)
        memory, disk = meminfo(), free_bytes(str(self._root)) >> 20
        swap = memory["SwapTotal"] - memory["SwapFree"] >> 20
        return line((*now, *gpu, memory["MemAvailable"] >> 20, *waits, swap, disk, self._steps))

    def _write(self, block: list[str]) -> None:
        """Do what a disk or an engine that hangs may hold up."""
        try:
            self._ring.write(block)
            self._steps = steps(self._root)
        except (OSError, ValueError) as error:
            show(f"the flight recorder cannot write, or not read its engines' steps: {error}")


def command() -> None:
    """Runs until it is stopped."""
    folder, *pair = words(__doc__, "ROOT", rest="ADDRESS")
    root, boot = Path(folder), boot_id()
    try:
        hard_end(root, boot)
        replace(root / "state/recording", boot, durable=True)
        recorder = Recorder(root, *pair)
        while True:
            recorder.second()
    except OSError as error:
        sys.exit(f"the flight recorder cannot go on: {error}")
