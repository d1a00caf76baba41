"""The links: a TLS session over the fabric between a group's head and each of its workers.

Each side shows its own certificate and accepts only those of the group. Lines of JSON; the first
says who is there, the second whether that is welcome, then one a second, so that silence means
something. Workers have no links among them: the head's end is the end of all.
"""

import asyncio
import json
import ssl
import time
from asyncio import StreamReader, StreamWriter
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PORT = 29500
BEAT = 1.0
# A plug that is put back, or a switch that starts anew, must not cost the minutes of two starts:
# engines sit out a cable that is dead for 20 s (measured: two ranks, NCCL over TCP, both go on).
# TCP tries again after 0.2, 0.6, 1.4, 3, 6.2, 12.6 and 25.4 s without an answer, so a link that is
# to outlast 20 s has to wait for the last of these (measured: 27.7 s from a line to the next, for
# cables that were dead for 16 to 20). NCCL's own limit on RDMA is about 30 s by its defaults
# (NCCL_IB_TIMEOUT 20, NCCL_IB_RETRY_CNT 7: 7 times 4.096 us * 2^20); to wait for longer could only
# keep requests hanging.
SILENCE = 30.0
# Without a word for so long, what does not come from the engine may be the fabric's fault.
QUIET = 3.0
# Different words that the other side may say; its programs know eleven.
WORDS = 20
RETRY = 1.0
# Of a connection, TLS and both greetings together.
GREETING = 5.0

REMEDY = "run Sparkwright for all of them"


class RefusedError(Exception):
    """One of the two Sparks does not want this session."""


@dataclass(frozen=True)
class Group:
    """The identity of this Spark, and those of the others.

    Attributes:
        sparks, addresses: name and fabric address of each, in rank order.
        head_rests: requests start the head, for which this worker may wait for days.
    """

    root: Path
    release: str
    rank: int
    sparks: tuple[str, ...]
    addresses: tuple[str, ...]
    head_rests: bool = False

    @property
    def linked(self) -> range:
        """The ranks to which this one has a link: a head's workers, a worker's head."""
        return range(1) if self.rank else range(1, len(self.sparks))

    @property
    def hello(self) -> dict[str, Any]:
        """The first words of this side."""
        return {"release": self.release, "spark": self.sparks[self.rank], "rank": self.rank}

    def objection(self, hello: dict[str, Any], rank: int) -> str | None:
        """Return what is wrong with the first line of the Spark of a rank."""
        release, peer = hello.get("release"), self.sparks[rank]
        found = hello.get("spark"), hello.get("rank")
        if found != (peer, rank):
            said = f"found {found[0]} with rank {found[1]}"
            return f"{said}, expected {peer} with rank {rank}: {REMEDY}"
        if release != self.release:
            return f"{peer} runs release {release}, this Spark {self.release}: {REMEDY}"
        return None

    def tls(self) -> ssl.SSLContext:
        """Read the key and the certificates, which a deploy may have changed since.

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
        await close(self._writer)

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


class Links:
    """The links of a group's Spark: a head's to all of its workers, or a worker's to its head."""

    def __init__(self, links: Iterable[Link]) -> None:
        self._links = tuple(links)

    def say(self, word: str, reason: str = "") -> None:
        """Send a word to each; "end" is the last."""
        for link in self._links:
            link.say(word, reason)

    async def all_say(self, word: str) -> None:
        """Return when each has said a word."""
        for link in self._links:
            await link.heard(word).wait()

    def have_said(self, word: str) -> bool:
        """Tell whether one of them has said a word."""
        return any(link.heard(word).is_set() for link in self._links)

    async def agree(self, yes: bool, *, is_head: bool) -> bool:
        """Tell whether this rank and all others say yes; the head answers when all have."""
        if is_head:
            await self.all_say("said")
            yes = yes and not self.have_said("no")
        if not yes:
            self.say("no")
        self.say("said")
        if not is_head:
            await self.all_say("said")
        return yes and not self.have_said("no")

    async def one_says(self, word: str) -> str:
        """Return the name of the first that says a word."""

        async def name(link: Link) -> str:
            await link.heard(word).wait()
            return link.peer

        return await _first(map(name, self._links))

    async def one_ends(self) -> str:
        """Return whose link ends first, and why."""

        async def name(link: Link) -> str:
            return f"{link.peer}: {await asyncio.shield(link.lost)}"

        return await _first(map(name, self._links))

    @property
    def quiet(self) -> bool:
        """Tell whether nothing has come from one of them for a while."""
        return any(link.quiet for link in self._links)

    async def close(self) -> None:
        """End all sessions, as `Link.close`."""
        await asyncio.gather(*(link.close() for link in self._links))


async def _first(ways: Iterable[Coroutine[Any, Any, str]]) -> str:
    """Return what the first of them returns, and drop the others."""
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()
    finally:
        for task in tasks:
            task.cancel()


async def greet(group: Group, rank: int, reader: StreamReader, writer: StreamWriter) -> Link:
    """Return a session that both sides want; a RefusedError tells that one of them does not."""
    try:
        writer.write(_line(group.hello))
        objection = group.objection(await _read(reader), rank)
        writer.write(_line({"objection": objection}))
        theirs = (await _read(reader)).get("objection")
        if objection or theirs:
            raise RefusedError((objection or f"it refuses this Spark: {theirs}")[:300])
    except BaseException:
        await close(writer)
        raise
    return Link(group.sparks[rank], reader, writer)


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


async def close(writer: StreamWriter) -> None:
    writer.close()
    try:
        async with asyncio.timeout(2):
            await writer.wait_closed()
    except OSError:
        writer.transport.abort()
