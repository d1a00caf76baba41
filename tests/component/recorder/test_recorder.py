"""The flight recorder as a process: its ring, what it sees, its hard ends, and what it costs."""

import fcntl
import os
import signal
import socket
import subprocess
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from host.insight.recorder.ring import Line, lines, parse
from host.state.status import hard_down
from tests.clock import patience
from tests.programs import changed_program, script

FIRST, SECOND = "75ced331-0000-4612-8914-805af3b0cbca", "11111111-0000-4612-8914-805af3b0cbca"
OFF_THE_BUS = "NVRM: Xid (PCI:000f:01:00): 79, pid=4, GPU has fallen off the bus."
SMI = "while :; do echo '61.42, 67, 2405'; sleep 1; done"
PORT = 39505


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The root folder of a Spark, and beside it what stands for its kernel's log and its GPU."""
    (tmp_path / "root/state").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    script(tmp_path / "bin/nvidia-smi", f"#!/bin/sh\n{SMI}\n")
    os.mkfifo(tmp_path / "kmsg")
    return tmp_path / "root"


def command(
    root: Path, boot: str, *addresses: str, first: str = "", **changes: object
) -> list[str]:
    """Return the command of a recorder of some boot, with other constants."""
    known = {"KMSG": str(root.parent / "kmsg"), "SYNC": 1, "PORT": PORT} | changes
    text = "import host.insight.recorder.recorder as recorder\n"
    text += "".join(f"recorder.{name} = {value!r}\n" for name, value in known.items())
    text += f"{first}recorder.boot_id = lambda: {boot!r}\nrecorder.command()"
    return changed_program(text, root, *addresses)


@contextmanager
def running(root: Path, boot: str, *addresses: str, **changes: Any) -> Iterator[Any]:
    """Run a recorder; what it leaves goes at once, as with the power."""
    path = f"{root.parent / 'bin'}:{os.environ['PATH']}"
    fed = ("bash", "-c", 'exec "$@" < <(nvidia-smi)', "-")
    process = subprocess.Popen(
        [*fed, *command(root, boot, *addresses, **changes)],
        env={**os.environ, "PATH": path},
        start_new_session=True,
    )
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


def seen(root: Path) -> list[Line]:
    """Return the lines that are on the disk."""
    return lines(root / "state/flight-recorder")


def down(root: Path) -> dict[str, Any] | None:
    return hard_down(str(root))


def say(root: Path, *words: str) -> None:
    """Have the kernel say something: a record for each, which is read alone."""
    with (root.parent / "kmsg").open("w") as log:
        for number, word in enumerate(words):
            log.write(f"4,{number},5140900,-;{word}\n SUBSYSTEM=pci\n")
            log.flush()
            wait(lambda: not any(fcntl.ioctl(log, termios.FIONREAD, bytes(4))))


def test_a_power_cut_is_known_after_the_boot_and_an_orderly_end_is_none(root: Path) -> None:
    with running(root, FIRST):
        wait(lambda: len(seen(root)) >= 4)
    before = time.time()
    # The recorder alone was ended: the Spark is up.
    with running(root, FIRST):
        wait(lambda: len([each for each in seen(root) if each.now["time"] > before]) >= 4)
    assert down(root) is None
    with running(root, SECOND):
        wait(lambda: (root / "state/recording").read_text() == SECOND)
        found = down(root)
        assert found
        assert found["cause"] == "power", found["why"]
        assert found["at"] <= time.time()
        assert before <= found["back"] <= time.time()
        assert len(parse(found["lines"])) == len(found["lines"]) - 1 >= 4
        # What it was is still there.
        assert len(lines(root / "state/last-down.lines")) >= 4
        wait(lambda: len(seen(root)) >= 2)
    # As the unit does once it is stopped.
    (root / "state/recording").unlink()
    (root / "state/last-down.json").unlink()
    with running(root, FIRST):
        wait((root / "state/recording").exists)
        wait(lambda: seen(root))
        assert not (root / "state/last-down.json").exists()


def test_the_kernels_words_are_on_the_disk_at_once_and_name_the_cause(root: Path) -> None:
    with running(root, FIRST, SYNC=3600, AGAIN=1):
        wait(
            lambda: any(each.now.get("celsius") for each in seen(root)) or say(root, "NVRM: hello")
        )
        say(root, "eth0: link becomes ready")
        say(root, OFF_THE_BUS)
        wait(lambda: any(each.word == OFF_THE_BUS for each in seen(root)))
    assert not any("eth0" in each.word for each in seen(root))
    with running(root, SECOND):
        wait(lambda: down(root))
    found = down(root)
    assert found
    assert (found["cause"], found["why"]) == ("driver", OFF_THE_BUS)
    assert found["lines"][-1].endswith(f"! {OFF_THE_BUS}")


FLOOD = "recorder.drained = lambda file: 100 * ['4,1,1,-;' + 20 * 'NVRM: Xid 79 ']\n"


def test_a_flood_of_words_is_bounded_and_leaves_room_for_readings(root: Path) -> None:
    with running(root, FIRST, first=FLOOD, SYNC=4):
        wait(lambda: len({each.now["up"] for each in seen(root) if not each.word}) >= 9)
        found = seen(root)
    readings = [each for each in found if not each.word]
    ups = [each.now["up"] for each in readings]
    assert max(b - a for a, b in pairwise(ups)) <= patience(2)
    # At most five in a write.
    assert 5 <= len(found) - len(readings) <= 5 * (2 + (ups[-1] - ups[0]) / 4)


@pytest.mark.parametrize("fault", ["sleep 3600", "kill -STOP $$", "exit 9"])
def test_a_gpu_that_tells_nothing_leaves_empty_fields(root: Path, fault: str) -> None:
    script(root.parent / "bin/nvidia-smi", f"#!/bin/sh\necho '61.42, 67, 2405'\n{fault}\n")
    with running(root, FIRST):
        wait(lambda: any(each.now.get("watts") == 61.42 for each in seen(root)))
        wait(lambda: "watts" not in seen(root)[-1].now)
        # The lines go on, a second apart.
        one = seen(root)[-1].now["up"]
        wait(lambda: seen(root)[-1].now["up"] >= one + 3)
        ups = [each.now["up"] for each in seen(root)]
        assert max(b - a for a, b in pairwise(ups)) <= patience(3)


def test_the_steps_of_the_engine(root: Path) -> None:
    (root / "current").symlink_to("releases/tiny-1")
    folder = root / "sockets/engines/tiny-1"
    folder.mkdir(parents=True)
    told = (
        "HTTP/1.0 200 OK\r\n\r\nvllm:x 1\n"
        'vllm:iteration_tokens_total_count{engine="0"} 4711.0\n'
        'vllm:iteration_tokens_total_count{engine="1"} 9.0\n'
    )
    with socket.socket(socket.AF_UNIX) as listening:
        os.chdir(folder)
        listening.bind("api.sock")
        listening.listen()

        def answer() -> None:
            while True:
                try:
                    asked, _ = listening.accept()
                except OSError:
                    return
                with asked:
                    asked.recv(9999)
                    asked.sendall(told.encode())

        threading.Thread(target=answer, daemon=True).start()
        with running(root, FIRST):
            wait(lambda: any(each.now.get("steps") == 4720 for each in seen(root)))


def test_each_of_a_pair_has_the_others_lines(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "state").mkdir(parents=True)
    here, there = "127.0.0.1", "127.0.0.2"

    def told() -> list[str]:
        ring = root / "state/flight-recorder"
        text = ring.read_text() if ring.exists() else ""
        return [each[2:] for each in text.split("\n") if each.startswith("> ")]

    with running(root, FIRST, here, there):
        with running(other, SECOND, there, here, KMSG="/none"), socket.socket(type=2) as stranger:
            wait(lambda: len(told()) >= 5)
            # Nobody but the other one.
            for word in ("1 2 ! STRANGER", "\x1b[31m", 70 * "9 "):
                stranger.sendto(word.encode(), (here, PORT))
            some = len(told())
            wait(lambda: len(told()) >= some + 3)
            texts = {each.text for each in seen(other)}
        found = told()
        assert len(parse(found)) == len(found)
        assert len(texts & {*found}) >= 5
        assert not any("STRANGER" in each for each in found)
        # Its own go on.
        one = seen(root)[-1].now["up"]
        wait(lambda: seen(root)[-1].now["up"] >= one + 3)


def test_what_a_peer_says_has_to_be_lines(root: Path) -> None:
    with running(root, FIRST, "127.0.0.1", "127.0.0.2"), socket.socket(type=2) as peer:
        peer.bind(("127.0.0.2", PORT))
        ring = root / "state/flight-recorder"

        def arrived() -> bool:
            for word in ("1 2 ! GOOD", "1 2 ! \x1b[31mBAD", "BAD", "1 2 3 BAD\n1 2 ! GOOD"):
                peer.sendto(word.encode(), ("127.0.0.1", PORT))
            return "> 1 2 ! GOOD" in ring.read_text()

        wait(lambda: ring.exists() and arrived())
        wait(lambda: ring.read_text().count("GOOD") >= 4)
        assert "BAD" not in ring.read_text()


BROKEN = "import os\ndef fail(*_): raise OSError(5, 'EIO')\n"


def test_a_disk_that_cannot_be_written_ends_nothing(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    said = ""
    with running(root, FIRST, first=f"{BROKEN}os.fdatasync = fail\n") as process:
        while "engines' steps: [Errno 5] EIO" not in said:
            said += capfd.readouterr().err
            assert process.poll() is None
            time.sleep(0.1)
        time.sleep(2)
        assert process.poll() is None


def spent(pid: int) -> float:
    """Return the seconds of processor that a process has used."""
    return int(Path("/proc", str(pid), "schedstat").read_text().split()[0]) / 1e9


def test_what_a_second_costs(root: Path) -> None:
    """Under 0.2 % of a core; twice that passes on a machine whose other core is at work, too."""
    with running(root, FIRST, SYNC=20) as process:
        wait(lambda: seen(root))
        time.sleep(3)
        begun, before = time.monotonic(), spent(process.pid)
        time.sleep(22)
        passed, after = time.monotonic() - begun, spent(process.pid)
    core = (after - before) / passed
    print(f"{core:.3%} of a core")
    assert core < 0.004
