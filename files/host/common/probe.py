"""The proof that an engine really generates, embeds or scores: one token, or one text, in time.

/health proves little: it stays 200 while the other rank is gone (vLLM 0.20 to 0.33).
"""

import asyncio
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from host.common.seat import engine_address

# As far apart as two looks: of a busy engine, one look more is needed to see that nothing moves.
INTERVAL = 6.0
# A token, then a look at the counters: a probe that fails takes the 6 s of both, and the next one
# follows at once.
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
# The shortest question, by what an engine answers.
_CHAT = "chat"
_QUESTIONS: Mapping[str, tuple[str, dict[str, Any]]] = {
    _CHAT: (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1},
    ),
    "embeddings": ("/v1/embeddings", {"input": "Hi"}),
    "scores": ("/v1/rerank", {"query": "Hi", "documents": ["Hi"]}),
}


class NoTokenError(Exception):
    """The engine answered, and not with what it was asked for."""


class Engine:
    """An engine's HTTP side, on its socket.

    Args:
        root: of its seat.
        answers: what it is asked for, as in unit.json.
        copy: of a model that is data parallel, the one that is asked: vLLM's own balancer might
            send everything past one that hangs.

    Raises:
        KeyError: nobody knows how to ask for that.
    """

    def __init__(
        self, root: Path, release: str, model: str, answers: str = _CHAT, copy: int | None = None
    ) -> None:
        self._root, self._release = root, release
        self._to = "" if copy is None else f"X-data-parallel-rank: {copy}\r\n"
        self._of = "" if copy is None else f'engine="{copy}"'
        self._path, question = _QUESTIONS[answers]
        self._question = json.dumps({"model": model, **question})
        is_chat = answers == _CHAT
        self._asked = "a completion of one token" if is_chat else f"a request of {self._path}"
        self._is_proof = _has_token if is_chat else _has_numbers

    async def healthy(self) -> bool:
        """Tell whether /health says 200."""
        try:
            async with asyncio.timeout(COUNTERS_DEADLINE):
                return (await self._request("GET", "/health"))[0] == 200
        except (OSError, ValueError):
            return False

    async def token(self) -> None:
        """Have one token generated, one text embedded, or one document scored.

        Raises:
            NoTokenError: what came is not that.
            OSError, ValueError: nothing sensible came.
        """
        status, body = await self._request("POST", self._path, self._question)
        if status in _BUSY:
            raise ValueError(f"status {status}")
        try:
            is_proof = status == 200 and self._is_proof(json.loads(body))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            is_proof = False
        if not is_proof:
            answer = " ".join(body.split())[:200]
            raise NoTokenError(f"{self._asked} gave status {status}: {answer}")

    async def counters(self) -> list[str] | None:
        """Return what moves when the engine works; None when it does not tell."""
        try:
            async with asyncio.timeout(COUNTERS_DEADLINE):
                _, body = await self._request("GET", "/metrics")
        except (OSError, ValueError):
            return None
        return [
            line for line in body.splitlines() if line.startswith(COUNTERS) and self._of in line
        ]

    async def _request(self, method: str, path: str, body: str = "") -> tuple[int, str]:
        # HTTP/1.0: the answer ends with the connection, so nothing needs to be parsed.
        with engine_address(self._root, self._release) as address:
            reader, writer = await asyncio.open_unix_connection(address)
        try:
            head = f"{method} {path} HTTP/1.0\r\nHost: localhost\r\n{self._to}"
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


def engines(root: Path, release: str, unit: Mapping[str, Any]) -> list[Engine]:
    """Return what is to be asked of a release's engine, by its unit.json: each copy by itself."""
    model, answers, copies = unit["model"], unit["answers"], range(unit.get("copies", 0))
    return [Engine(root, release, model, answers, each) for each in copies or (None,)]


def _has_token(answer: Any) -> bool:
    return bool(answer["usage"]["completion_tokens"])


def _has_numbers(answer: Any) -> bool:
    """Tell whether an answer has a vector or a score, of finite numbers."""
    (found,) = answer.get("data") or answer["results"]
    numbers = found["embedding"] if "embedding" in found else [found["relevance_score"]]
    return bool(numbers) and all(map(math.isfinite, numbers))


async def _whole(reader: asyncio.StreamReader) -> bytes:
    """Return all that comes until the end, if it is no more than any answer of an engine.

    More would take the memory of the supervisor, which is the last that earlyoom ends.
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


def patience(longest_step: float) -> int:
    """Return how many looks in a row may see nothing move: more than fit into a step of so many
    seconds, whenever it begins. They are 6 s apart, but for what the counters take to answer.
    """
    apart = TOKEN_DEADLINE + COUNTERS_DEADLINE
    return max(FAILURES, 1 + math.ceil((longest_step + COUNTERS_DEADLINE) / apart))


def found_within(looks: int) -> float:
    """Return the seconds in which a hang is found that begins right after a token, or after a look:
    24 with 3.
    """
    return INTERVAL + looks * (TOKEN_DEADLINE + COUNTERS_DEADLINE)


async def watch(
    engine: Engine, longest_step: float = 0, excused: Callable[[], bool] = lambda: False
) -> str:
    """Return why an engine that was ready generates no more.

    A busy one may be late with a token: while its counters move, it is alive. They move when a step
    ends. An engine whose steps were longer than expected, and which went on, gets twice as long as
    it has shown, but at most twice what is expected. Whether requests run is not asked: vLLM tells
    that when a step ends as well, so the first step of a prompt looks like a hang while idle.

    Args:
        longest_step: seconds that a step of this engine may take while it is sound.
        excused: says whether a missing token may be none of the engine's fault, such as a fabric
            that is silent: then it does not count. A wrong answer always does.
    """
    allowed = patience(longest_step)
    still = wrong = survived = 0
    seen: list[str] | None = None
    clock = asyncio.get_running_loop().time
    await asyncio.sleep(INTERVAL)
    while True:
        begun = clock()
        problem = await _problem(engine)
        if problem is None:
            survived = max(survived, still)
            still, wrong, seen = 0, 0, None
            await asyncio.sleep(INTERVAL)
            continue
        # One that refuses is looked at no sooner than one that is late.
        await asyncio.sleep(begun + TOKEN_DEADLINE - clock())
        now = await engine.counters()
        if moved := now is not None and seen is not None and now != seen:
            survived = max(survived, still)
        still = 0 if moved or excused() else still + 1
        wrong = wrong + 1 if isinstance(problem, NoTokenError) else 0
        # One look without an answer must not hide that they moved since the one before.
        seen = seen if now is None else now
        bound = max(allowed, 2 * min(survived, allowed))
        if still >= bound or wrong == FAILURES:
            return f"{problem}, {max(still, wrong)} times in a row"
        await asyncio.sleep(begun + TOKEN_DEADLINE + COUNTERS_DEADLINE - clock())


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
