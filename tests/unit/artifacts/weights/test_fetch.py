"""A download at its limits: when it is tried again, what it counts, and the file that it fills."""

import errno
import mmap
import os
import shutil
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from hashlib import sha256
from io import BytesIO
from pathlib import Path

import httpx2
import pytest

from host.artifacts.weights import hashing_file, hub
from host.artifacts.weights.checkpoint import LocalCheckpoint
from host.artifacts.weights.hashing_file import ALIGNED, File, ResumableFile
from host.common.progress import JobError, Progress
from host.common.retry import DELAYS, ENOUGH, RetryableError, retry

CONTENT = bytes(range(256)) * 40
WHOLE = File("model.safetensors", len(CONTENT), sha256(CONTENT).hexdigest())
MANIFEST = {"model.safetensors": {"size": WHOLE.size, "sha256": WHOLE.digest}}


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds before each further try, which nobody waits for."""
    seconds: list[float] = []
    monkeypatch.setattr("time.sleep", seconds.append)
    return seconds


@pytest.fixture
def progress(tmp_path: Path) -> Progress:
    return Progress(tmp_path / "job.json", lambda: ("", 0, 0))


class Line:
    """A line that fails so many times, after a byte or none."""

    def __init__(self, failures: int, brings: int, wait: int = 0) -> None:
        self.left, self.brings, self.wait, self.size = failures, brings, wait, 0

    def attempt(self) -> None:
        if self.left:
            self.left -= 1
            self.size += self.brings
            raise RetryableError("it broke", self.wait)


@pytest.mark.parametrize(
    ("line", "delays", "waited", "fails"),
    [
        # Tries are spent by those that bring nothing, or next to nothing.
        *((Line(10**9, brings), (1, 2), [1, 2], True) for brings in (0, 1, -1)),
        # They begin anew where one, or several together, have brought enough.
        (Line(50, ENOUGH), (1, 2), [1] * 50, False),
        (Line(4, ENOUGH // 2), (1, 2), [1, 1, 2, 1], False),
        # A server may ask for a longer wait.
        (Line(2, 0, wait=2), (1, 4), [2, 4], False),
    ],
)
def test_how_often_and_after_how_long_it_is_tried_again(
    waits: list[float],
    progress: Progress,
    line: Line,
    delays: tuple[int, ...],
    waited: list[int],
    fails: bool,
):
    said = "it broke, again and again: try later"
    with pytest.raises(JobError, match=said) if fails else nullcontext():
        retry(line.attempt, lambda: line.size, progress, "it", delays=delays)
    assert waits == waited
    assert progress.message == ""


@pytest.fixture
def fetched_from(
    tmp_path: Path, progress: Progress, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., bytes]:
    """Fetch from a hub that answers so; return what has come."""

    def fetch(answer: Callable[[httpx2.Request], httpx2.Response]) -> bytes:
        transport = httpx2.MockTransport(answer)
        monkeypatch.setattr(hub, "get_session", lambda: httpx2.Client(transport=transport))
        repository = hub.Repository("http://hub.invalid", "lab/tiny", "1" * 40, progress)
        with ResumableFile(tmp_path / "partial", WHOLE) as growing:
            repository.fetch(growing)
        return (tmp_path / "partial").read_bytes()

    return fetch


@pytest.fixture
def fetched(fetched_from: Callable[..., bytes]) -> Callable[..., bytes]:
    """Fetch from a hub that refuses at first; return what has come."""

    def fetch(*refusals: tuple[int, dict[str, str]]) -> bytes:
        answers = [httpx2.Response(status, headers=headers) for status, headers in refusals]
        answers.append(httpx2.Response(200, content=iter([CONTENT])))
        return fetched_from(lambda _: answers.pop(0))

    return fetch


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 410, 429, 499, 500, 503])
def test_what_may_pass_is_tried_again_and_what_stays_is_not(
    fetched: Callable[..., bytes], waits: list[float], status: int
):
    passes = status in (408, 429, 500, 503)
    with nullcontext() if passes else pytest.raises(JobError, match=rf"\({status}"):
        assert fetched((status, {})) == CONTENT
    assert waits == ([DELAYS[0]] if passes else [])


@pytest.mark.parametrize(
    ("header", "said", "wait"),
    [
        ("Retry-After", "7", 7),
        ("Retry-After", "0", 1),
        ("Retry-After", "600", 600),
        ("Retry-After", "86400", hub.LONGEST_DELAY),
        ("Retry-After", "9" * 5000, 1),
        ("Retry-After", "Sun, 22 Nov", 1),
        ("Retry-After", "", 1),
        # The public hub tells so when the window of five minutes ends.
        ("RateLimit", '"resolvers";r=0;t=55', 55),
    ],
)
def test_a_hub_may_ask_for_ten_minutes_and_no_more(
    fetched: Callable[..., bytes], waits: list[float], header: str, said: str, wait: int
):
    assert fetched((429, {header: said})) == CONTENT
    assert waits == [wait]


def test_a_connection_that_drips_is_given_up(
    fetched_from: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch, waits: list[float]
):
    """A byte a second, until it is asked again: then all the rest at once."""
    now, asked = [0.0], [0]

    def drips(request: httpx2.Request) -> httpx2.Response:
        seconds = 0 if asked[0] else 1
        asked[0] += 1

        def parts() -> Iterator[bytes]:
            for position in range(len(CONTENT)):
                now[0] += seconds
                yield CONTENT[position : position + 1]

        return httpx2.Response(200, content=parts())

    monkeypatch.setattr(hub.time, "monotonic", lambda: now[0])
    assert fetched_from(drips) == CONTENT
    assert now[0] == hub.WINDOW + 1
    assert waits == [DELAYS[0]]


class Sent:
    """A source that sends what is missing."""

    name, phase, connections = "it", "copying", 1

    def fetch(self, growing: ResumableFile) -> None:
        growing.append(BytesIO(CONTENT[growing.position :]).readinto)


@pytest.mark.parametrize(("here", "lacks"), [(0, 0), (6000, 0), (0, 1), (6000, 1)])
def test_only_bytes_that_are_missing_need_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, here: int, lacks: int
):
    checkpoint = LocalCheckpoint(tmp_path, MANIFEST)
    partial = tmp_path / ".sparkwright-partial" / f"{WHOLE.digest[:16]}-{WHOLE.path}"
    partial.parent.mkdir()
    partial.write_bytes(CONTENT[:here])
    usage = namedtuple("usage", "total used free")(0, 0, WHOLE.size - here - lacks)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    checkpoint.verify()
    if lacks:
        with pytest.raises(JobError, match="are still to be fetched"):
            checkpoint.fetch(Sent())
        assert partial.stat().st_size == here
    else:
        checkpoint.fetch(Sent())
        assert (tmp_path / WHOLE.path).read_bytes() == CONTENT


def test_a_partial_file_that_is_too_long_begins_again(tmp_path: Path):
    """Of another commit, say: it is cut, so that what follows can be right."""
    partial, content = tmp_path / "partial", BytesIO(CONTENT)
    partial.write_bytes(bytes(WHOLE.size + ALIGNED))
    with ResumableFile(partial, WHOLE) as growing:
        assert growing.position == 0
        growing.append(lambda part: content.readinto(part[:1000]))
        assert growing.digest == WHOLE.digest
    assert partial.read_bytes() == CONTENT


def breaks(content: bytes) -> Callable[[memoryview], int]:
    """Read content as of a connection that breaks after it."""
    source = BytesIO(content)

    def read(part: memoryview) -> int:
        if count := source.readinto(part):
            return count
        raise ConnectionResetError

    return read


def test_a_full_disk_is_not_lost_behind_a_broken_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fails(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", fails)
    monkeypatch.setattr(hashing_file, "BLOCK", ALIGNED)
    with (
        ResumableFile(tmp_path / "partial", WHOLE) as growing,
        pytest.raises(JobError, match="No space left"),
    ):
        growing.append(breaks(CONTENT[:ALIGNED]))


def is_in_memory(file: Path) -> bool:
    """Whether a file can be read without a disk."""
    with file.open("rb", buffering=0) as content:
        try:
            return os.preadv(content.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT) == 1
        except BlockingIOError:
            return False


def test_what_is_written_leaves_the_memory_to_others(tmp_path: Path):
    """On a Spark it is the GPU's, and vLLM counts files in it as used."""
    block = memoryview(mmap.mmap(-1, ALIGNED))
    probe = os.open(tmp_path / "probe", os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
    os.write(probe, block)
    os.close(probe)
    if is_in_memory(tmp_path / "probe"):
        pytest.skip("this file system keeps all in memory")
    content = bytes(16 * ALIGNED)
    whole = File("model.safetensors", len(content), sha256(content).hexdigest())
    with ResumableFile(tmp_path / "partial", whole) as growing:
        growing.append(len)
        assert growing.complete
    assert not is_in_memory(tmp_path / "partial")
