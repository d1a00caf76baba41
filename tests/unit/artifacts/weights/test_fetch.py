"""A download at its limits: how often and after how long it is tried again, and what it counts."""

import shutil
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path

import httpx2
import pytest

from host.artifacts.weights import hub
from host.artifacts.weights.checkpoint import LocalCheckpoint
from host.artifacts.weights.hashing_file import File
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


def test_bytes_that_are_taken_back_are_counted_once(waits: list[float], progress: Progress):
    sizes = [0, *[ENOUGH, 0] * 50]

    def attempt() -> None:
        sizes.pop(0)
        raise RetryableError("it broke")

    with pytest.raises(JobError):
        retry(attempt, lambda: sizes[0], progress, "it", delays=(1, 2))
    assert waits == [1, 2]


class Server:
    """What the library asks: it refuses as often as told, then sends the file."""

    def __init__(self, refusals: list[tuple[int, dict[str, str]]]) -> None:
        self.refusals = refusals

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        if self.refusals:
            status, headers = self.refusals.pop(0)
            return httpx2.Response(status, headers=headers)
        return httpx2.Response(200, content=iter([CONTENT]))

    def session(self) -> httpx2.Client:
        return httpx2.Client(transport=httpx2.MockTransport(self.answer))


@pytest.fixture
def fetched(
    tmp_path: Path, progress: Progress, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., bytes]:
    """Fetch from a hub that refuses at first; return what has come."""

    def fetch(*refusals: tuple[int, dict[str, str]]) -> bytes:
        monkeypatch.setattr(hub, "get_session", Server(list(refusals)).session)
        partial = tmp_path / "partial"
        hub.Repository("http://hub.invalid", "lab/tiny", "1" * 40, progress).fetch(WHOLE, partial)
        return partial.read_bytes()

    return fetch


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_what_may_pass_is_tried_again(
    fetched: Callable[..., bytes], waits: list[float], status: int
):
    assert fetched((status, {})) == CONTENT
    assert waits == [DELAYS[0]]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 499])
def test_what_stays_is_not(fetched: Callable[..., bytes], waits: list[float], status: int):
    with pytest.raises(JobError, match=rf"\({status}"):
        fetched((status, {}))
    assert waits == []


@pytest.mark.parametrize(
    ("said", "wait"),
    [
        ("7", 7),
        ("0", 1),
        ("600", 600),
        ("86400", hub.LONGEST_DELAY),
        ("9" * 5000, 1),
        ("Sun, 22 Nov", 1),
        ("", 1),
    ],
)
def test_a_hub_may_ask_for_ten_minutes_and_no_more(
    fetched: Callable[..., bytes], waits: list[float], said: str, wait: int
):
    assert fetched((429, {"Retry-After": said})) == CONTENT
    assert waits == [wait]


def test_the_public_hubs_word_for_a_wait(fetched: Callable[..., bytes], waits: list[float]):
    """It tells in RateLimit when the window of five minutes ends."""
    assert fetched((429, {"RateLimit": '"resolvers";r=0;t=55'})) == CONTENT
    assert waits == [55]


def test_a_connection_that_drips_is_given_up(
    tmp_path: Path, progress: Progress, monkeypatch: pytest.MonkeyPatch, waits: list[float]
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
    transport = httpx2.MockTransport(drips)
    monkeypatch.setattr(hub, "get_session", lambda: httpx2.Client(transport=transport))
    partial = tmp_path / "partial"
    hub.Repository("http://hub.invalid", "lab/tiny", "1" * 40, progress).fetch(WHOLE, partial)
    assert partial.read_bytes() == CONTENT
    assert now[0] == hub.WINDOW + 1
    assert waits == [DELAYS[0]]


class Sent:
    """A source that sends what is missing."""

    name, phase, connections = "it", "copying", 1

    def fetch(self, file: File, partial: Path) -> str:
        with partial.open("ab") as content:
            content.write(CONTENT[content.tell() :])
        return file.digest_of(partial)


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
