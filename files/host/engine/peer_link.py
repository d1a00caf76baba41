"""The link: one TLS session between the supervisors of a pair, over the fabric.

Each side shows its own certificate and accepts only the peer's. Lines of JSON; the first says who
is there, the second whether that is welcome, then one a second, so that silence means something.
"""

import asyncio
import json
import socket
import ssl
import time
from asyncio import StreamReader, StreamReaderProtocol, StreamWriter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PORT = 29500
BEAT = 1.0
# A plug that is put back, or a switch that starts anew, must not cost the minutes of two starts:
# engines sit out a cable that is dead for 20 s (measured: two ranks, NCCL over TCP, both go on).
# TCP tries again after 0.2, 0.6, 1.4, 3, 6.2, 12.6 and 25.4 s without an answer, so a link that is
# to outlast 20 s has to wait for the last of these. NCCL's own limit on RDMA is about 30 s by its
# defaults (NCCL_IB_TIMEOUT 20, NCCL_IB_RETRY_CNT 7: 7 times 4.096 us * 2^20); to wait for longer
# could only keep requests hanging.
SILENCE = 30.0
# Without a word for so long, what does not come from the engine may be the fabric's fault.
QUIET = 3.0
# Different words that the other side may say; its programs know five.
WORDS = 20
RETRY = 1.0
# Of a connection, TLS and both greetings together.
GREETING = 5.0

_REMEDY = "run Sparkwright for both"
_IP_FREEBIND = 15


class RefusedError(Exception):
    """One of the two does not want this session."""


@dataclass(frozen=True)
class Pair:
    """The identity of this Spark, and that of the other one.

    Attributes:
        sparks, addresses: name and fabric address of both, in rank order.
    """

    root: Path
    release: str
    rank: int
    sparks: tuple[str, str]
    addresses: tuple[str, str]

    @property
    def peer(self) -> str:
        """Name of the other Spark."""
        return self.sparks[1 - self.rank]

    @property
    def hello(self) -> dict[str, Any]:
        """The first words of this side."""
        return {"release": self.release, "spark": self.sparks[self.rank], "rank": self.rank}

    def objection(self, hello: dict[str, Any]) -> str | None:
        """Return what is wrong with the other side's first line."""
        release = hello.get("release")
        who, rank = hello.get("spark"), hello.get("rank")
        if (who, rank) != (self.peer, 1 - self.rank):
            return (
                f"found {who} with rank {rank}, expected {self.peer} with rank {1 - self.rank}: "
                f"{_REMEDY}"
            )
        if release != self.release:
            return f"{self.peer} runs release {release}, this Spark {self.release}: {_REMEDY}"
        return None

    def tls(self) -> ssl.SSLContext:
        """Read the key and both certificates, which a deploy may have changed since.

        Raises:
            OSError: a file is missing, or is not what it should be.
        """
        side = ssl.PROTOCOL_TLS_CLIENT if self.rank else ssl.PROTOCOL_TLS_SERVER
        context = ssl.SSLContext(side)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(self.root / "link/own.crt", self.root / "secrets/link.key")
        context.load_verify_locations(self.root / "link/peer.crt")
        return context


class Link:
    """A session with a peer that both sides wanted; `lost` is done, with the reason, at its end."""

    def __init__(self, peer: str, reader: StreamReader, writer: StreamWriter) -> None:
        self.peer = peer
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._writer = writer
        self._last = time.monotonic()
        self._heard: dict[str, asyncio.Event] = {}
        self._tasks = [asyncio.create_task(self._listen(reader)), asyncio.create_task(self._beat())]

    def say(self, word: str, reason: str = "") -> None:
        """Send a word; "end" is the last."""
        if not self._writer.is_closing():
            self._writer.write(_line({"say": word, "reason": reason}))

    def heard(self, word: str) -> asyncio.Event:
        """Return the event that the other side has said this word."""
        return self._heard.setdefault(word, asyncio.Event())

    @property
    def quiet(self) -> bool:
        """Tell whether nothing has come from the other side for a while."""
        return time.monotonic() - self._last > QUIET

    async def close(self) -> None:
        """End the session; what was said still goes out, if the other side takes it."""
        for task in self._tasks:
            task.cancel()
        await _close(self._writer)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT)
            self.say("alive")

    async def _listen(self, reader: StreamReader) -> None:
        try:
            while True:
                async with asyncio.timeout(SILENCE):
                    line = await reader.readline()
                if not line:
                    reason = "its supervisor is gone"
                    break
                self._last = time.monotonic()
                word = json.loads(line)
                if word["say"] == "end":
                    reason = word["reason"]
                    break
                if len(self._heard) >= WORDS:
                    raise ValueError("too many words")
                self.heard(word["say"]).set()
        except TimeoutError:
            reason = f"no word for {SILENCE:g} s: no power, cable out, or frozen"
        except ConnectionResetError:
            # It had words of ours yet to read when it died.
            reason = "its supervisor is gone"
        except Exception as error:
            # Whatever the peer says: the end of this task is the end of the link.
            reason = f"the link broke ({error!r:.200})"
        # It becomes a line of the journal and of the unit's status.
        reason = " ".join(str(reason).split())[:300]
        if not self.lost.done():
            self.lost.set_result(reason)


async def join(pair: Pair, show: Callable[[str], None]) -> Link:
    """Return a session with the other Spark, however long that takes; show why it takes long."""

    def waiting(reason: str) -> None:
        show(f"waiting for {pair.peer} at {pair.addresses[1 - pair.rank]}: {reason}")

    waiting("nothing heard yet; there, `systemctl status 'vllm@*'` tells why")
    listener = None
    with ExitStack() as stack:
        while True:
            try:
                if pair.rank:
                    return await _call(pair)
                listener = listener or stack.enter_context(_listener(pair.addresses[0]))
                return await _answer(pair, listener)
            except (OSError, ValueError, RefusedError) as error:
                waiting(_why(error))
            await asyncio.sleep(RETRY)


async def _call(pair: Pair) -> Link:
    head, own = pair.addresses
    async with asyncio.timeout(GREETING):
        streams = await asyncio.open_connection(
            head, PORT, ssl=pair.tls(), local_addr=(own, 0), ssl_shutdown_timeout=1
        )
        return await _greet(pair, *streams)


async def _answer(pair: Pair, listener: socket.socket) -> Link:
    loop = asyncio.get_running_loop()
    while True:
        connection, (address, _) = await loop.sock_accept(listener)
        if address == pair.addresses[1]:
            break
        connection.close()
    async with asyncio.timeout(GREETING):
        reader = StreamReader()
        protocol = StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol, connection, ssl=pair.tls(), ssl_shutdown_timeout=1
        )
        return await _greet(pair, reader, StreamWriter(transport, protocol, reader, loop))


def _listener(address: str) -> socket.socket:
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # The address comes and goes with the cable.
        listener.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
        listener.bind((address, PORT))
        listener.listen()
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


async def _greet(pair: Pair, reader: StreamReader, writer: StreamWriter) -> Link:
    try:
        writer.write(_line(pair.hello))
        objection = pair.objection(await _read(reader))
        writer.write(_line({"objection": objection}))
        theirs = (await _read(reader)).get("objection")
        if objection or theirs:
            raise RefusedError(objection or f"it refuses this Spark: {str(theirs)[:300]}")
    except BaseException:
        await _close(writer)
        raise
    return Link(pair.peer, reader, writer)


async def _read(reader: StreamReader) -> dict[str, Any]:
    line = await reader.readline()
    if not line:
        raise RefusedError("it closed the connection")
    try:
        found = json.loads(line)
    except RecursionError:
        raise ValueError("found JSON that is nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError(f"found {line[:80]!r}")
    return found


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode() + b"\n"


async def _close(writer: StreamWriter) -> None:
    writer.close()
    try:
        async with asyncio.timeout(2):
            await writer.wait_closed()
    except OSError:
        writer.transport.abort()


def _why(error: Exception) -> str:
    """Say in words for people why there is no session yet."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"it shows a certificate other than the pinned one: {_REMEDY}"
        case ssl.SSLError() if "ALERT" in (error.reason or ""):
            return f"it does not accept this Spark's certificate: {_REMEDY}"
        case ssl.SSLError():
            return f"TLS: {error}: {_REMEDY}"
        case FileNotFoundError():
            return f"secrets/link.key, link/own.crt or link/peer.crt is missing: {_REMEDY}"
        case ConnectionRefusedError():
            return "its engine is not started (connection refused)"
        case TimeoutError():
            return "no answer"
        case OSError():
            return error.strerror or str(error)
        case ValueError():
            return f"it does not speak as a supervisor does ({error})"
    return str(error)
