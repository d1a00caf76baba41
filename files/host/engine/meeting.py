"""The meeting of a group's supervisors: links between the head and each worker, when all are there.

A worker calls the head until all have come; no engine starts before. One that goes while others are
waited for is waited for anew.
"""

import asyncio
import math
import socket
import ssl
import time
from asyncio import StreamReader, StreamReaderProtocol, StreamWriter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from host.engine import peer_link
from host.engine.peer_link import REMEDY, Group, Link, Links, RefusedError

# The head's word that all have come.
_TOGETHER = "together"
# Calls of one worker that wait until the head has time for them.
_CALLS = 4
_NOTHING = "nothing heard yet; there, `systemctl status 'vllm@*'` tells why"
_OTHERS = "it waits for other Sparks of the group"
_IP_FREEBIND = 15
# Seconds after which a Spark counts as missing: a boot takes five minutes, and new firmware ten. It
# is waited for all the same.
MISSING = 900

Show = Callable[[str], None]


async def join(group: Group, show: Show) -> Links:
    """Return links to the other Sparks, however long that takes; show why it takes long."""
    absent = _Absent(group, show)
    late = asyncio.create_task(absent.remind())
    try:
        if group.rank:
            return Links([await _find_head(group, absent)])
        links = Links(await _gather(group, absent))
    finally:
        late.cancel()
    links.say(_TOGETHER)
    return links


class _Absent:
    """The Sparks that are not there yet: why, and since when."""

    def __init__(self, group: Group, show: Show) -> None:
        self._group, self._show = group, show
        now = time.monotonic()
        self.ranks = dict.fromkeys(group.linked, (_NOTHING, now))
        self.show()

    def say(self, rank: int, why: str, *, heard: bool = False) -> None:
        """Show why a Spark is not there, or why one that is heard does not start."""
        now = time.monotonic()
        _, since = self.ranks.get(rank, (why, now))
        self.ranks[rank] = why, math.inf if heard else min(since, now)
        self.show()

    def show(self) -> None:
        """Show for whom this Spark waits, those first who are missing."""
        latest, texts = time.monotonic() - MISSING, list[str]()
        for rank, (why, since) in sorted(self.ranks.items()):
            text = f"{self._group.sparks[rank]} at {self._group.addresses[rank]}: {why}"
            late = f"missing for {MISSING / 60:.0f} min: " if since <= latest else "waiting for "
            texts.append(f"{late}{text}")
        self._show("; ".join(sorted(texts)))

    async def remind(self) -> None:
        """Show it also while nothing happens."""
        while True:
            await asyncio.sleep(MISSING / 15)
            self.show()


async def _find_head(group: Group, absent: _Absent) -> Link:
    while True:
        try:
            link = await _call(group)
            await _wait_for_others(link, lambda: absent.say(0, _OTHERS, heard=True))
            return link
        except (OSError, ValueError, RefusedError) as error:
            rests = group.head_rests and isinstance(error, ConnectionRefusedError)
            absent.say(0, _why(error), heard=rests)
        await asyncio.sleep(peer_link.RETRY)


async def _wait_for_others(link: Link, show: Callable[[], None]) -> None:
    """Return when the head says that all are there; a RefusedError tells that the link is lost."""
    said = asyncio.create_task(link.heard(_TOGETHER).wait())
    try:
        for seconds in (peer_link.BEAT, None):
            ways: set[asyncio.Future[Any]] = {said, link.lost}
            await asyncio.wait(ways, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if said.done():
                return
            if link.lost.done():
                raise RefusedError(link.lost.result())
            show()
    except BaseException:
        await link.close()
        raise
    finally:
        said.cancel()


async def _gather(group: Group, absent: _Absent) -> list[Link]:
    """Return the links to all workers, in rank order."""
    links = dict[int, Link]()
    calls = {rank: asyncio.Queue[socket.socket](_CALLS) for rank in group.linked}
    changed = asyncio.Event()

    async def accept() -> None:
        ranks = {group.addresses[rank]: rank for rank in group.linked}
        with ExitStack() as stack:
            listener = None
            while True:
                try:
                    listener = listener or stack.enter_context(_listener(group.addresses[0]))
                    loop = asyncio.get_running_loop()
                    connection, (address, _) = await loop.sock_accept(listener)
                except OSError as error:
                    for rank in absent.ranks:
                        absent.say(rank, _why(error))
                    await asyncio.sleep(peer_link.RETRY)
                    continue
                if address not in ranks or calls[ranks[address]].full():
                    connection.close()
                else:
                    calls[ranks[address]].put_nowait(connection)

    async def keep(rank: int) -> None:
        while True:
            try:
                link = await _answer(group, rank, await calls[rank].get())
            except (OSError, ValueError, RefusedError) as error:
                absent.say(rank, _why(error))
                continue
            links[rank] = link
            del absent.ranks[rank]
            if absent.ranks:
                absent.show()
            changed.set()
            reason = await asyncio.shield(link.lost)
            await links.pop(rank).close()
            absent.say(rank, reason)

    try:
        async with asyncio.TaskGroup() as running:
            tasks = [running.create_task(way) for way in (accept(), *map(keep, group.linked))]
            while len(links) < len(group.linked):
                changed.clear()
                await changed.wait()
            for task in tasks:
                task.cancel()
        return [links.pop(rank) for rank in group.linked]
    finally:
        for link in links.values():
            await link.close()


async def _call(group: Group) -> Link:
    head, own = group.addresses[0], group.addresses[group.rank]
    async with asyncio.timeout(peer_link.GREETING):
        streams = await asyncio.open_connection(
            head, peer_link.PORT, ssl=group.tls(), local_addr=(own, 0), ssl_shutdown_timeout=1
        )
        return await peer_link.greet(group, 0, *streams)


async def _answer(group: Group, rank: int, connection: socket.socket) -> Link:
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(peer_link.GREETING):
        reader = StreamReader()
        protocol = StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(
            lambda: protocol, connection, ssl=group.tls(), ssl_shutdown_timeout=1
        )
        writer = StreamWriter(transport, protocol, reader, loop)
        return await peer_link.greet(group, rank, reader, writer)


def _listener(address: str) -> socket.socket:
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # The address comes and goes with the cable.
        listener.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
        listener.bind((address, peer_link.PORT))
        listener.listen()
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def _why(error: Exception) -> str:
    """Say in words for people why there is no session yet."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"it shows a certificate other than the pinned one: {REMEDY}"
        case ssl.SSLError() if "ALERT" in (error.reason or ""):
            return f"it does not accept this Spark's certificate: {REMEDY}"
        case ssl.SSLError():
            return f"TLS: {error}: {REMEDY}"
        case FileNotFoundError():
            return f"secrets/link.key, link/own.crt or link/peer.crt is missing: {REMEDY}"
        case ConnectionRefusedError():
            return "its engine is not started (connection refused)"
        case TimeoutError():
            return "no answer"
        case OSError():
            return error.strerror or str(error)
        case ValueError():
            return f"it does not speak as a supervisor does ({error})"
    return str(error)
