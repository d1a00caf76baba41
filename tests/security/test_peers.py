"""What the other Spark of a pair says, and an engine, cannot end a supervisor."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from host.common import probe
from host.common.log import show
from host.common.seat import SOCKETS, engine_address
from host.engine.peer_link import Link
from host.insight.benchmark import bench_engine
from host.state.engine_api import speed
from tests.clock import patience
from tests.component.servers import serving
from tests.component.socket_server import SocketServer
from tests.makers.liar import BUFFERS, Liar, endless


class _Writer:
    """The sending half of a connection that nobody reads."""

    def is_closing(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"[" * 5000, "RecursionError"),
        (b'{"say": []}', "unhashable"),
        (b'{"say": "end", "reason": {"a": "b\\nSTATUS=owned"}}', "{'a': 'b"),
        (b'{"say": "end", "reason": "' + b"x " * 1000 + b'"}', "x x x"),
        (b"\n".join(b'{"say": "%d"}' % each for each in range(100)), "too many words"),
    ],
    ids=["deep", "no word", "no text", "long", "words"],
)
def test_whatever_a_peer_says_its_end_is_told(line: bytes, why: str) -> None:
    async def told() -> str:
        reader = asyncio.StreamReader()
        reader.feed_data(line + b"\n")
        link = Link("spark-b", reader, _Writer())  # type: ignore[arg-type]
        async with asyncio.timeout(patience()):
            return await link.lost

    reason = asyncio.run(told())
    assert why in reason
    assert len(reason) <= 300
    assert "\n" not in reason


def test_what_a_peer_says_is_shown_as_plain_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        show("spark-b: \ud800 \x1b[2J\nSTATUS=owned é")
        assert systemd.recv(100).decode() == "STATUS=spark-b: ? ?[2J STATUS=owned é"


def test_an_answer_of_an_engine_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "MOST", 100_000)
    written = 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        writer.write(b"HTTP/1.0 200 OK\r\n\r\n")
        with suppress(OSError):
            while True:
                writer.write(b"vllm:a 1\n" * 1000)
                written += 9000
                await writer.drain()

    async def asked() -> list[str] | None:
        (tmp_path / SOCKETS / "m-1").mkdir(parents=True)
        with engine_address(tmp_path, "m-1") as address:
            server = await asyncio.start_unix_server(endless, address)
        async with server:
            return await probe.Engine(tmp_path, "m-1", "m").counters()

    monkeypatch.setattr(probe, "COUNTERS_DEADLINE", patience())
    assert asyncio.run(asked()) is None
    # What the two sockets hold comes on top.
    assert written < 20_000_000


class _Engine(Liar):
    lie = endless

    def do_POST(self) -> None:
        self.do_GET()


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The root of an engine whose answers have no end; they are bounded."""
    monkeypatch.setattr(_Engine, "sent", 0)
    with serving(SocketServer(tmp_path, "m-1", _Engine)):
        yield str(tmp_path)
    assert _Engine.sent < (8 << 20) + BUFFERS


def test_an_answer_to_a_benchmark_is_bounded(engine: str) -> None:
    with pytest.raises(bench_engine.JobError, match="does not answer /metrics"):
        bench_engine.MeasuredEngine(engine, "m-1", "m").preemptions()


def test_an_answer_to_a_rollout_is_bounded(engine: str) -> None:
    assert speed(engine, "m-1", "m")["speed"] is None
