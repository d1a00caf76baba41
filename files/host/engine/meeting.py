"""The meeting of a group's supervisors: links between the head and each worker, when all are there.

A worker calls the head until all have come; no engine starts before. One that goes while others are
waited for is waited for anew.
"""

import asyncio
import socket
import ssl
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

Show = Callable[[str], None]


async def join(group: Group, show: Show) -> Links:
    """Return links to the other Sparks, however long that takes; show why it takes long."""
    if group.rank:
        return Links([await _find_head(group, show)])
    links = Links(await _gather(group, show))
    links.say(_TOGETHER)
    return links


async def _find_head(group: Group, show: Show) -> Link:
    show(group.waiting({0: _NOTHING}))
    while True:
        try:
            link = await _call(group)
            await _wait_for_others(link, lambda why: show(group.waiting({0: why})))
            return link
        except (OSError, ValueError, RefusedError) as error:
            show(group.waiting({0: _why(error)}))
        await asyncio.sleep(peer_link.RETRY)


async def _wait_for_others(link: Link, show: Show) -> None:
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
            show(_OTHERS)
    except BaseException:
        await link.close()
        raise
    finally:
        said.cancel()


async def _gather(group: Group, show: Show) -> list[Link]:
    """Return the links to all workers, in rank order."""
    reasons, links = dict.fromkeys(group.linked, _NOTHING), dict[int, Link]()
    calls = {rank: asyncio.Queue[socket.socket](_CALLS) for rank in group.linked}
    changed = asyncio.Event()

    def wait_for(rank: int, reason: str) -> None:
        reasons[rank] = reason
        show(group.waiting(reasons))

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
                    for rank in reasons:
                        wait_for(rank, _why(error))
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
                wait_for(rank, _why(error))
                continue
            links[rank] = link
            del reasons[rank]
            if reasons:
                show(group.waiting(reasons))
            changed.set()
            reason = await asyncio.shield(link.lost)
            await links.pop(rank).close()
            wait_for(rank, reason)

    show(group.waiting(reasons))
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
