"""record ROOT [OWN NEXT LAST]: write what this Spark is, a line a second, into ROOT/state.

Standard input is what nvidia-smi says. At its start it judges the end of the previous boot, if that
left ROOT/state/recording. Each Spark of a group sends its lines to the next one as well, and has
those of the last one after "> ".

A write is 20 KiB on ext4 (our block, four of the journal and the inode): one in 20 s, 88 MB a day.
When the kernel speaks or a reading passes a limit it comes early, 500 times a day at most: 10 MB.
"""

import json
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

from host.common.atomic import replace
from host.common.command_line import words
from host.common.log import show
from host.common.seat import SEATS
from host.engine.crash_guard import boot_id
from host.insight.recorder.judge import HEAD, NOTED, SECONDS, judge, line, parse, worst
from host.state.checkup import pstore
from host.state.engine_api import ask, samples
from host.state.engines import current
from host.state.readers import free_bytes, meminfo, text, whole, word

PORT = 29505
# Seconds between two writes; early ones at once, and seconds until there may be one more; lines and
# messages of a Spark in a write; bytes of a write, and of the file, which has three hours.
SYNC, EARLY, AGAIN, LINES, MESSAGES, BLOCK, SIZE = 20, 20, 180, 25, 5, 4096, 2 << 20
KMSG = "/dev/kmsg"


def drained(file: int) -> list[str]:
    """Return what can be read without waiting; of the kernel's log, each record alone."""
    found: list[str] = []
    with suppress(OSError):  # there is no more, or the kernel has overwritten it
        while len(found) < 100:
            found.append(os.read(file, 8192).decode("utf-8", "replace"))
    return found


def hard_end(root: Path, boot: str) -> None:
    """Judge a life that did not end in order into ROOT/state/last-down.json."""
    ring = text(str(root / "state/flight-recorder"), SIZE) or ""
    last = sorted(parse(ring.split("\n")), key=lambda each: each["up"])
    if word(str(root / "state/recording")) in ("", boot) or not last:
        return
    final, back = last[-1], time.time()
    # WDIOF_CARDRESET; a GB10's may not set it (NVIDIA/open-gpu-kernel-modules#1358).
    flags = Path("/sys/class/watchdog").glob("*/bootstatus")
    told = ["watchdog reset"] if any(whole(word(str(each))) & 0x20 for each in flags) else []
    told += [row for each in pstore() if each["at"] > final["time"] for row in each["lines"]]
    cause, why = judge([*last, *(final | {"word": each[:160]} for each in told)])
    at = min(final["time"], back)
    times = (time.strftime("%d %b %H:%M", time.gmtime(each)) for each in (at, back))
    said = f"it went down hard at {' and was back at '.join(times)} UTC; cause {cause}: {why}"
    show(said)
    seconds = [HEAD, *(each["text"] for each in last if final["up"] - each["up"] < SECONDS)]
    down = {"at": at, "back": back, "cause": cause, "said": said, "lines": seconds}
    with suppress(OSError):  # without any room on the disk, the journal has it
        replace(root / "state/last-down.json", json.dumps(down), durable=True)
        replace(root / "state/last-down.lines", "\n".join(each["text"] for each in last))


class Recorder:
    """The loop of a second, and the lines that wait for the next write."""

    def __init__(self, root: Path, own: str = "", onto: str = "", of: str = "") -> None:
        self._root, self._onto, self._of, self._place = root, onto, of, 0
        ring = root / "state/flight-recorder"
        self._file = os.open(ring, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
        # Written, not only reserved: a write into it then changes no map of the file.
        os.pwrite(self._file, b"\n" * SIZE, 0)
        self._own, self._others = list[str](), list[str]()
        self._written, self._next_early, self._urgent, self._level = -1e9, -1e9, False, 0
        self._writer, self._gpu, self._until, self._steps = Thread(), "", 0, 0.0
        self._log, self._socket = -1, socket.socket(type=socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        os.set_blocking(sys.stdin.fileno(), False)
        with suppress(OSError):
            self._log = os.open(KMSG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._log, 0, os.SEEK_END)
        if own:
            self._socket.setsockopt(socket.IPPROTO_IP, 15, 1)  # IP_FREEBIND: the link may be down
            self._socket.bind((own, PORT))

    def second(self) -> None:
        """Have a second's lines on the next Spark, and on the disk once it is time."""
        up, now = time.monotonic(), (round(time.time()), int(time.monotonic()))
        records = (each.partition(";")[2].partition("\n")[0] for each in drained(self._log))
        room = max(0, MESSAGES - sum(" ! " in each for each in self._own))
        said = [line(now, each) for each in records if NOTED.search(each)][:room]
        texts = [self._readings(now), *said]
        self._own = [*self._own, *texts][-LINES:]
        if self._of:
            with suppress(OSError):
                # It then takes packets of this one alone.
                self._socket.connect((self._of, PORT))
                self._socket.sendto("\n".join(texts).encode(), (self._onto, PORT))
            came = "\n".join(drained(self._socket.fileno())).split("\n")
            heard = (f"> {each['text']}" for each in parse(came))
            self._others = [*self._others, *heard][-LINES:]
        *_, level = worst([*parse(texts[:1])])
        self._urgent |= bool(said) or level > self._level
        early = self._urgent and up >= self._next_early
        if (early or up - self._written >= SYNC) and not self._writer.is_alive():
            self._next_early = max(self._next_early, up - EARLY * AGAIN) + AGAIN * early
            self._written, self._urgent, self._level = up, False, level
            block = "\n".join([*self._own, *self._others])[: BLOCK - 1].ljust(BLOCK, "\n")
            self._writer = Thread(target=self._write, args=(block,), daemon=True)
            self._writer.start()
            self._own, self._others = [], []
        time.sleep(max(0, now[1] + 1 - time.monotonic()))

    def _readings(self, now: tuple[int, int]) -> str:
        if said := "".join(drained(sys.stdin.fileno())).rstrip():
            self._gpu, self._until = said.rpartition("\n")[2], now[1] + 3
        gpu = [*(self._gpu.split(",") if now[1] < self._until else ()), "", "", ""][:3]
        pressures = (word(f"/proc/pressure/{each}") for each in ("memory", "io", "cpu"))
        # "some avg10=1.53 avg60=0.87 …"
        waits = (each.partition("avg10=")[2].partition(" ")[0] for each in pressures)
        memory, disk = meminfo(), free_bytes(str(self._root)) >> 20
        available = round(100 * memory["MemAvailable"] / memory["MemTotal"], 2)
        swap = memory["SwapTotal"] - memory["SwapFree"] >> 20
        return line((*now, *gpu, available, *waits, swap, disk, self._steps))

    def _write(self, block: str) -> None:
        """Do what a disk or an engine that hangs may hold up."""
        try:
            os.pwrite(self._file, block.encode(), self._place)
            os.fdatasync(self._file)
            self._place = (self._place + BLOCK) % SIZE
            places = map(str, (self._root, *self._root.glob(f"{SEATS}/*")))
            said = [ask(each, current(each) or "", "/metrics", patience=2) for each in places]
            counts = samples("\n".join(said), ["iteration_tokens_total_count"])
            self._steps = sum(value for *_, value in counts)
        except (OSError, ValueError) as error:
            show(f"the flight recorder cannot write, or not read its engines' steps: {error}")


def command() -> None:
    """Runs until it is stopped."""
    folder, *group = words(__doc__, "ROOT", rest="ADDRESS")
    root, boot = Path(folder), boot_id()
    try:
        hard_end(root, boot)
        replace(root / "state/recording", boot, durable=True)
        recorder = Recorder(root, *group)
        while True:
            recorder.second()
    except OSError as error:
        sys.exit(f"the flight recorder cannot go on: {error}")
