"""The proof that an engine really generates: one token, in time.

/health proves little: it stays 200 while the other rank is gone (vLLM 0.20 to 0.33).
"""

import asyncio
import json
from collections.abc import Callable
from urllib.parse import urlsplit

INTERVAL = 10.0
# A token, then a look at the counters: a probe that fails takes the 6 s of both, and the next one
# follows at once. So a hang that begins right after a good one is found after 10 + 3 * 6 = 28 s.
TOKEN_DEADLINE = 4.0
COUNTERS_DEADLINE = 2.0
FAILURES = 3
# Bytes of an answer: what vLLM tells at /metrics has some hundred thousand.
MOST = 8 << 20
READY_INTERVAL = 0.5

# What moves as soon as the engine makes a step, and by nothing else. While a long prompt is read,
# which takes many steps, only the cache's usage does.
COUNTERS = (
    "vllm:kv_cache_usage_perc",
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_total",
    "vllm:iteration_tokens_total_count",
)
# "Later, I am busy": no answer, rather than a wrong one.
_BUSY = (429, 503)


class NoTokenError(Exception):
    """The engine answered, and not with a token."""


class Engine:
    """An engine's HTTP side.

    Args:
        url: http://ADDRESS:PORT.
        model: a name that it serves.
    """

    def __init__(self, url: str, model: str) -> None:
        where = urlsplit(url)
        self._host, self._port, self._netloc = where.hostname, where.port, where.netloc
        self._model = model

    async def healthy(self) -> bool:
        """Tell whether /health says 200."""
        try:
            async with asyncio.timeout(COUNTERS_DEADLINE):
                return (await self._request("GET", "/health"))[0] == 200
        except (OSError, ValueError):
            return False

    async def token(self) -> None:
        """Have one token generated.

        Raises:
            NoTokenError: what came is not that.
            OSError, ValueError: nothing sensible came.
        """
        question = {"model": self._model, "messages": [{"role": "user", "content": "Hi"}]}
        status, body = await self._request(
            "POST", "/v1/chat/completions", json.dumps(question | {"max_tokens": 1})
        )
        if status in _BUSY:
            raise ValueError(f"status {status}")
        try:
            tokens = json.loads(body)["usage"]["completion_tokens"]
        except (ValueError, KeyError, TypeError, RecursionError):
            tokens = 0
        if status != 200 or not tokens:
            answer = " ".join(body.split())[:200]
            raise NoTokenError(f"a completion of one token gave status {status}: {answer}")

    async def counters(self) -> list[str] | None:
        """Return what moves when the engine works; None when it does not tell."""
        try:
            async with asyncio.timeout(COUNTERS_DEADLINE):
                _, body = await self._request("GET", "/metrics")
        except (OSError, ValueError):
            return None
        return [line for line in body.splitlines() if line.startswith(COUNTERS)]

    async def _request(self, method: str, path: str, body: str = "") -> tuple[int, str]:
        # HTTP/1.0: the answer ends with the connection, so nothing needs to be parsed.
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            head = f"{method} {path} HTTP/1.0\r\nHost: {self._netloc}\r\n"
            if body:
                head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            writer.write(f"{head}\r\n{body}".encode())
            answer = (await _whole(reader)).decode(errors="replace")
        finally:
            writer.close()
        first, _, rest = answer.partition("\r\n")
        protocol, status, *_ = [*first.split(), "", ""]
        if not protocol.startswith("HTTP/") or not status.isdecimal():
            raise ValueError(f"no HTTP answer: {first[:80]!r}")
        return int(status), rest.partition("\r\n\r\n")[2]


async def _whole(reader: asyncio.StreamReader) -> bytes:
    """Return all that comes until the end.

    Raises:
        ValueError: it is more than any answer of an engine: it would take the memory of the host,
            and of its supervisor, which is the last that earlyoom ends.
    """
    answer = bytearray()
    while block := await reader.read(1 << 16):
        answer += block
        if len(answer) > MOST:
            raise ValueError(f"an answer of more than {MOST} bytes")
    return bytes(answer)


async def ready(engine: Engine) -> None:
    """Return when the engine has given a first token, however long that takes."""
    while True:
        if await engine.healthy():
            try:
                return await engine.token()
            except (NoTokenError, OSError, ValueError):
                pass
        await asyncio.sleep(READY_INTERVAL)


async def watch(
    engine: Engine, bound: int = FAILURES, excused: Callable[[], bool] = lambda: False
) -> str:
    """Return why an engine that was ready generates no more.

    A busy one may be late with a token: while its counters move, it is alive.

    Args:
        bound: failures in a row that are too many; each takes 6 s at the least.
        excused: says whether a missing token may be none of the engine's fault, such as a fabric
            that is silent: then it does not count. A wrong answer always does.
    """
    failures = 0
    seen: list[str] | None = None
    await asyncio.sleep(INTERVAL)
    while True:
        least = asyncio.create_task(asyncio.sleep(TOKEN_DEADLINE + COUNTERS_DEADLINE))
        try:
            problem = await _problem(engine)
            if problem is None:
                failures, seen = 0, None
                await asyncio.sleep(INTERVAL)
                continue
            now = await engine.counters()
            moved = now is not None and seen is not None and now != seen
            # One look without an answer must not hide that they moved since the one before.
            seen = seen if now is None else now
            alive = (moved or excused()) and not isinstance(problem, NoTokenError)
            failures = 0 if alive else failures + 1
            if failures == bound:
                return f"{problem}, {bound} times in a row"
            await least
        finally:
            least.cancel()


async def _problem(engine: Engine) -> Exception | None:
    late = f"no token within {TOKEN_DEADLINE:g} s while its counters stand still"
    try:
        async with asyncio.timeout(TOKEN_DEADLINE):
            await engine.token()
    except NoTokenError as error:
        return error
    except TimeoutError:
        return TimeoutError(late)
    except (OSError, ValueError) as error:
        return TimeoutError(f"{late} ({error})")
    return None
