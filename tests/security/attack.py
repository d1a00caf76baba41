"""attack.py TARGET PORT KIND COUNT SOURCE ...: hostile connections, until standard input ends.

From each source, an address of this machine, so many are held as COUNT says; what the server ends
is made anew. A line comes when each has been tried and the server has ended what it ends: how many
are held.

silent        says nothing
head          says the head of a request, a line at a time
body          asks for /health with a body, and sends that a byte at a time
page          asks as a browser's page does before its request, with a body
answers       takes the answer of /health, and stays
tls           says the beginning of a TLS handshake
garbage       says what no server understands, and begins again

With the key that the environment names ATTACK_KEY:

resting       asks for something small, and stays; again each second
posting       asks with a body of 60 MiB, and sends 64 KiB of it a second
unread        asks for a stream without an end, and takes nothing of it
pipelined     asks a hundred times at once; again each second
waiting       asks for an answer
looking       asks for the metrics of the door, and again when answered
churning      asks once, leaves when answered, and comes anew
"""

import asyncio
import contextlib
import os
import resource
import sys
from collections.abc import Sequence

# Seconds between two signs of life of a connection; new ones in a second, of all sources together.
PACE, RENEWED = 1.0, {"churning": 1000}
BODY = b"HTTP/1.1\r\nHost: door\r\nContent-Length: 1000000\r\n"
KEYED = b"Host: door\r\nAuthorization: Bearer %b\r\n" % os.environ.get("ATTACK_KEY", "").encode()
SMALL = b"GET /v1/models HTTP/1.1\r\n" + KEYED + b"\r\n"
# What the door itself answers.
NONE = b"GET /none HTTP/1.1\r\n" + KEYED + b"\r\n"
FIRST = {
    "silent": b"",
    "head": b"GET /v1/models HTTP/1.1\r\n",
    "body": b"GET /health " + BODY + b"\r\n",
    "page": b"OPTIONS /v1/models " + BODY + b"Origin: http://page.example\r\n"
    b"Access-Control-Request-Method: GET\r\n\r\n",
    "answers": b"GET /health HTTP/1.1\r\nHost: door\r\n\r\n",
    # The head of a record of 512 bytes, which a ClientHello is to begin with.
    "tls": b"\x16\x03\x01\x02\x00\x01",
    "garbage": b"\x00\x01\x02\r\n\r\n",
    "resting": SMALL,
    "posting": b"POST /v1/completions HTTP/1.1\r\n%bContent-Length: 62914560\r\n\r\n" % KEYED,
    "unread": b"POST /v1/stream HTTP/1.1\r\n%bContent-Length: 16\r\n\r\n[1000000, 0.100]" % KEYED,
    "waiting": b"POST /v1/completions HTTP/1.1\r\n%bContent-Length: 2\r\n\r\n{}" % KEYED,
    "pipelined": SMALL + NONE * 99,
    "looking": b"GET /metrics/door HTTP/1.1\r\n" + KEYED + b"\r\n",
    "churning": SMALL,
}
MORE = {
    **{"head": b"X-More: 1\r\n", "body": b"x", "page": b"x"},
    **{"resting": SMALL, "posting": bytes(65536), "pipelined": NONE * 100},
}
# When answered.
AGAIN = {"looking": FIRST["looking"]}


class Attack:
    def __init__(self, target: str, port: int, kind: str, pause: float) -> None:
        self._target = target
        self._port, self._kind, self._pause = port, kind, pause
        self.held = self.tried = 0
        self._turn = asyncio.Semaphore(64)

    async def settled(self) -> int:
        """Return how many are held once the server has got to all that it ends.

        The kernel takes a connection before the server looks at it, which a busy machine delays.
        """
        least, looks = self.held, 0
        while looks < 20:
            await asyncio.sleep(0.05)
            looks = 0 if self.held < least else looks + 1
            least = min(least, self.held)
        return least

    async def keep(self, source: str) -> None:
        while True:
            with contextlib.suppress(OSError):
                async with self._turn:
                    try:
                        streams = await asyncio.open_connection(
                            "::1" if ":" in source else self._target,
                            self._port,
                            local_addr=(source, 0),
                        )
                    finally:
                        self.tried += 1
                await self._hold(*streams)
            await asyncio.sleep(self._pause)

    async def _hold(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.held += 1
        try:
            writer.write(FIRST[self._kind])
            while True:
                if self._kind == "unread":
                    # asyncio takes 128 KiB by itself.
                    await asyncio.sleep(PACE)
                    if reader.at_eof() or reader.exception():
                        return
                    continue
                try:
                    async with asyncio.timeout(PACE):
                        if not await reader.read(65536) or self._kind == "churning":
                            return
                    if self._kind in AGAIN:
                        await asyncio.sleep(PACE / 10)
                        writer.write(AGAIN[self._kind])
                except TimeoutError:
                    writer.write(MORE.get(self._kind, b""))
        finally:
            self.held -= 1
            writer.close()


async def main(target: str, port: int, kind: str, count: int, sources: Sequence[str]) -> None:
    attack = Attack(target, port, kind, pause=count * len(sources) / RENEWED.get(kind, 500))
    kept = [asyncio.create_task(attack.keep(source)) for _ in range(count) for source in sources]
    while attack.tried < len(kept):
        await asyncio.sleep(0.05)
    print("held", await attack.settled(), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    print("tried", attack.tried, "held", attack.held, flush=True)


if __name__ == "__main__":
    if sys.argv[1:] in (["-h"], ["--help"]):
        sys.exit(print(__doc__))
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    target, port, kind, count, *sources = sys.argv[1:]
    asyncio.run(main(target, int(port), kind, int(count), sources))
