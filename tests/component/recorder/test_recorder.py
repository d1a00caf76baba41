"""The flight recorder as a process: its ring, what it sees, its hard ends, and what it costs."""

import fcntl
import os
import signal
import socket
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from host.insight.recorder.judge import Line, parse
from host.insight.recorder.recorder import SIZE
from host.state.status import hard_down
from tests.clock import patience
from tests.component.servers import free_port
from tests.programs import changed_program, script

FIRST, SECOND = "75ced331-0000-4612-8914-805af3b0cbca", "11111111-0000-4612-8914-805af3b0cbca"
OFF_THE_BUS = "NVRM: Xid (PCI:000f:01:00): 79, pid=4, GPU has fallen off the bus."
READINGS = "echo '61.42, 67, 2405'"
PORT = free_port()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root folder of a Spark, and beside it what stands for its kernel's log and its GPU."""
    (tmp_path / "root/state").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin/nvidia-smi", f"#!/bin/sh\nwhile :; do {READINGS}; sleep 1; done\n")
    os.mkfifo(tmp_path / "kmsg")
    return tmp_path / "root"


@contextmanager
def running(root: Path, boot: str, *pair: str, first: str = "", **changes: Any) -> Iterator[Any]:
    """Run a recorder with other constants; what it leaves goes at once, as with the power."""
    known = {"KMSG": str(root.parent / "kmsg"), "SYNC": 1, "PORT": PORT} | changes
    text = "import host.insight.recorder.recorder as recorder\n"
    text += "".join(f"recorder.{name} = {value!r}\n" for name, value in known.items())
    text += f"{first}\nrecorder.boot_id = lambda: {boot!r}\nrecorder.command()"
    fed = ("bash", "-c", 'exec "$@" < <(nvidia-smi)', "-", *changed_program(text, root, *pair))
    path = f"{root.parent / 'bin'}:{os.environ['PATH']}"
    process = subprocess.Popen(fed, env={**os.environ, "PATH": path}, start_new_session=True)
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait(condition: Callable[[], object]) -> None:
    end = time.monotonic() + patience(60)
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def seen(root: Path, mark: str = "") -> list[Line]:
    """Return the lines that are on the disk, or those of the other Spark, after their mark."""
    ring = root / "state/flight-recorder"
    rows = ring.read_text().split("\n") if ring.exists() else []
    texts = (each.removeprefix(mark) for each in rows if each.startswith(mark))
    return sorted(parse(texts), key=lambda each: each["up"])


def gap(found: list[Line]) -> float:
    """Return the longest time between two readings."""
    ups = sorted({each["up"] for each in found if not each["word"]})
    return max((after - before for before, after in pairwise(ups)), default=0)


def say(root: Path, *words: str) -> None:
    """Have the kernel say something: a record for each, which is read alone."""
    with (root.parent / "kmsg").open("w") as log:
        for number, word in enumerate(words):
            log.write(f"4,{number},5140900,-;{word}\n SUBSYSTEM=pci\n")
            log.flush()
            wait(lambda: not any(fcntl.ioctl(log, termios.FIONREAD, bytes(4))))


def test_a_power_cut_is_known_after_the_boot_and_an_orderly_end_is_none(root: Path) -> None:
    begun = time.time()
    with running(root, FIRST):
        wait(lambda: seen(root))
    before = time.time()
    # The recorder alone was ended: the Spark is up.
    with running(root, FIRST):
        wait(lambda: len([each for each in seen(root) if each["time"] > before]) >= 4)
    assert hard_down(str(root)) is None
    ring = (root / "state/flight-recorder").stat()
    assert (ring.st_size, ring.st_mode & 0o777) == (SIZE, 0o640)
    with running(root, SECOND):
        wait(lambda: (root / "state/recording").read_text() == SECOND)
        found = hard_down(str(root))
        assert found
        assert found["cause"] == "power", found["said"]
        assert int(begun) <= found["at"] <= found["back"] <= time.time()
        assert len([*parse(found["lines"])]) == len(found["lines"]) - 1 >= 4
        wait(lambda: len(seen(root)) >= 2)
    # As the unit does once it is stopped.
    (root / "state/recording").unlink()
    (root / "state/last-down.json").unlink()
    with running(root, FIRST):
        wait(lambda: (root / "state/recording").exists() and seen(root))
        assert not (root / "state/last-down.json").exists()


def test_what_matters_is_on_the_disk_at_once_and_names_the_cause(root: Path) -> None:
    parts = "MemTotal=100, SwapTotal=0, SwapFree=0, MemAvailable=len(os.listdir(ROOM))"
    room = root / "room"
    for number in range(20):
        (room / str(number)).mkdir(parents=True)
    first = f"import os\nROOM = {str(room)!r}\nrecorder.meminfo = lambda: dict({parts})"
    with running(root, FIRST, first=first, SYNC=3600):
        wait(lambda: seen(root))
        for left in (9, 3, 1):
            for each in [*room.iterdir()][left:]:
                each.rmdir()
            wait(lambda left=left: seen(root)[-1]["available"] == left)
        say(root, "eth0: link becomes ready", OFF_THE_BUS)
        wait(lambda: any(each["word"] == OFF_THE_BUS for each in seen(root)))
        # What comes next waits for its turn.
        count = len(seen(root))
        time.sleep(3)
        assert len(seen(root)) == count
        assert not any("eth0" in each["word"] for each in seen(root))
    with running(root, SECOND):
        wait(lambda: hard_down(str(root)))
    found = hard_down(str(root))
    assert found
    assert found["said"].endswith("cause memory: 1.0 % of the memory left, pressure 0 %, 67 °C")
    assert found["lines"][-1].endswith(f"! {OFF_THE_BUS}")


def test_a_flood_of_words_is_bounded_and_leaves_room_for_readings(root: Path) -> None:
    flood = "recorder.drained = lambda file: 100 * ['4,1,1,-;' + 20 * 'NVRM: Xid 79 ']"
    with running(root, FIRST, first=flood, SYNC=4, EARLY=1):
        wait(lambda: len([each for each in seen(root) if not each["word"]]) >= 9)
        found = seen(root)
    assert gap(found) <= patience(3.5)
    # At most five in a write.
    words = len([each for each in found if each["word"]])
    assert 5 <= words <= 5 * (3 + (found[-1]["up"] - found[0]["up"]) / 4)


@pytest.mark.parametrize("fault", ["sleep 3600", "kill -STOP $$", "exit 9"])
def test_a_gpu_that_tells_nothing_leaves_empty_fields(root: Path, fault: str) -> None:
    script(root.parent / "bin/nvidia-smi", f"#!/bin/sh\n{READINGS}\n{fault}\n")
    # Of the two engines that a vLLM may have.
    steps = "".join(f'vllm:iteration_tokens_total_count{{engine="{n}"}} {n}.0\n' for n in (7, 40))
    with running(root, FIRST, first=f"recorder.ask = lambda *_, **__: {steps!r}"):
        wait(lambda: any(each.get("watts") == 61.42 for each in seen(root)))
        wait(lambda: seen(root)[-1].get("steps") == 47)
        wait(lambda: "watts" not in seen(root)[-1])
        one = seen(root)[-1]["up"]
        wait(lambda: seen(root)[-1]["up"] >= one + 3)
        assert gap(seen(root)) <= patience(4)


def test_the_next_of_a_group_has_its_lines_and_nobody_elses(root: Path, tmp_path: Path) -> None:
    other, here, there, third = tmp_path / "other", "127.0.0.1", "127.0.0.2", "127.0.0.3"
    (other / "state").mkdir(parents=True)
    with running(root, FIRST, here, third, there), socket.socket(type=socket.SOCK_DGRAM) as after:
        after.bind((third, PORT))
        with running(other, SECOND, there, here, third, KMSG="/none"):
            wait(lambda: len(seen(root, "> ")) >= 5)
            with socket.socket(type=socket.SOCK_DGRAM) as stranger:
                stranger.sendto(b"1 2 ! STRANGER", (here, PORT))
            some = len(seen(root, "> "))
            wait(lambda: len(seen(root, "> ")) >= some + 3)
            texts = {each["text"] for each in seen(other)}
        assert len(texts & {each["text"] for each in seen(root, "> ")}) >= 5
        sent = {after.recv(4096).decode() for _ in range(5)}
        assert len(sent & {each["text"] for each in seen(root)}) == 5
        # What it says has to be lines, and its own go on.
        one = seen(root)[-1]["up"]
        with socket.socket(type=socket.SOCK_DGRAM) as peer:
            peer.bind((there, PORT))
            for word in ("1 2 ! \x1b[31mBAD", "BAD", "1 2 3 BAD\n1 2 ! GOOD", 70 * "9 "):
                peer.sendto(word.encode(), (here, PORT))
            wait(lambda: any(each["word"] == "GOOD" for each in seen(root, "> ")))
        wait(lambda: seen(root)[-1]["up"] >= one + 3)
        ring = (root / "state/flight-recorder").read_text()
        assert "BAD" not in ring
        assert "STRANGER" not in ring


def test_a_disk_that_cannot_be_written_ends_nothing(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    broken = "import os\ndef fail(*_): raise OSError(5, 'EIO')\nos.fdatasync = fail"
    with running(root, FIRST, first=broken) as process:
        wait(lambda: "engines' steps: [Errno 5] EIO" in capfd.readouterr().err)
        time.sleep(2)
        assert process.poll() is None


def test_what_a_second_costs(root: Path) -> None:
    """Under 0.2 % of a core; twice that passes on a machine whose other core is at work, too."""
    with running(root, FIRST, SYNC=20) as process:
        wait(lambda: seen(root))
        time.sleep(3)
        counter = Path("/proc", str(process.pid), "schedstat")
        begun, before = time.monotonic(), int(counter.read_text().split()[0])
        time.sleep(22)
        spent = (int(counter.read_text().split()[0]) - before) / 1e9
        core = spent / (time.monotonic() - begun)
    print(f"{core:.3%} of a core")
    assert core < patience(0.004)
