"""Requests as they come in: bounded in all and by key, and judged beside the loop."""

import asyncio
import json
import os
import resource
import struct
import sys
from collections import Counter
from contextlib import suppress
from typing import Any

from host.gateway.fields import JudgedBody, judged
from host.gateway.shapes import RefusedBody

# Bytes of all requests in flight, and of those of one key: with what LiteLLM makes of them, the
# process stays below its unit's MemoryMax.
ALL, EACH = 128 << 20, 32 << 20
# Bytes that LiteLLM takes for a value, about, while a request is in flight.
VALUE = 512
# Bytes of a body that is judged in the loop itself: within some milliseconds.
_SMALL = 16 << 10
# Seconds in which a body must have come: two megabits a second.
SECONDS = 60
# Bytes of memory for judging one body.
_MEMORY = 1 << 30
_LENGTHS = struct.Struct(">II")


class Intake:
    """The bytes of requests in flight, by the name of their key."""

    def __init__(self) -> None:
        self.held: Counter[str] = Counter()

    def take(self, name: str, size: int) -> int:
        """Count so many bytes more; return 429 or 503 in place of 0 if there is no room."""
        if self.held[name] + size > EACH:
            return 429
        if self.held.total() + size > ALL:
            return 503
        self.held[name] += size
        return 0

    def give(self, name: str, size: int) -> None:
        """Count so many bytes less."""
        self.held[name] -= size
        if not self.held[name]:
            del self.held[name]


class Judge:
    """A process that judges large bodies in turn: Python's parser lets nothing else run."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None

    async def __call__(self, path: str, body: bytes) -> JudgedBody:
        """Judge a body, as `fields.judged` does."""
        if len(body) <= _SMALL:
            return judged(path, body)
        # An answer that nobody waits for any more is read all the same.
        found = await asyncio.shield(asyncio.create_task(self._ask(path, body)))
        if "why" in found:
            raise RefusedBody(found["why"], found["place"])
        return JudgedBody(**found)

    async def _ask(self, path: str, body: bytes) -> dict[str, Any]:
        async with self._turn:
            try:
                process = self._process or await self._start()
                assert process.stdin
                assert process.stdout
                process.stdin.write(_LENGTHS.pack(len(path), len(body)) + path.encode())
                process.stdin.write(body)
                await process.stdin.drain()
                head, rest = _LENGTHS.unpack(await process.stdout.readexactly(_LENGTHS.size))
                found: dict[str, Any] = json.loads(await process.stdout.readexactly(head))
                passed = await process.stdout.readexactly(rest)
            except (OSError, EOFError):
                self.end()
                return {"why": "the body could not be read", "place": None}
            return found if "why" in found else {**found, "body": passed}

    async def _start(self) -> asyncio.subprocess.Process:
        # It knows no key, and what it might say of a body nobody hears.
        program = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve()"
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-B", "-c", program),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={},
        )
        return self._process

    def end(self) -> None:
        """End the process; the next body starts another."""
        if self._process:
            with suppress(ProcessLookupError):
                self._process.kill()
        self._process = None


def serve() -> None:
    """Judge what comes by standard input, until it ends."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    stdin, stdout = sys.stdin.buffer, sys.stdout.buffer
    while lengths := stdin.read(_LENGTHS.size):
        path, body = map(stdin.read, _LENGTHS.unpack(lengths))
        passed = b""
        try:
            found = judged(path.decode(), body)
            passed = found.body
            said: dict[str, Any] = {"model": found.model, "values": found.values}
        except RefusedBody as error:
            said = {"why": str(error), "place": error.place}
        except MemoryError:
            os._exit(1)
        head = json.dumps(said).encode()
        stdout.write(_LENGTHS.pack(len(head), len(passed)) + head)
        stdout.write(passed)
        stdout.flush()
