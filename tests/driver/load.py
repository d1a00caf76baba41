"""Clients that go on asking, one streamed answer after the other, while something changes."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import requests

from tests.clock import patience
from tests.driver.client import CHAT, PORT, authorization
from tests.driver.sparks import eventually
from tests.lab.spark import Handle

# Engines share the processors with what starts beside them: more clients only make that longer.
CLIENTS, PAUSE = 2, 1.0
# Seconds that an answer may take to begin: longer than a door holds a request.
LONGEST = 600
BROKE_OFF = "broke off"
BODY = {**CHAT, "max_tokens": 48, "stream": True, "ignore_eos": True}


@dataclass(frozen=True)
class Answer:
    """One request: whose, when it began and ended, and what went wrong; None when nothing did."""

    client: int
    began: float
    ended: float
    problem: str | None


@dataclass
class Load:
    answers: list[Answer] = field(default_factory=list)

    @property
    def failed(self) -> list[Answer]:
        return [answer for answer in self.answers if answer.problem]

    @property
    def longest_wait(self) -> float:
        """Seconds that the longest whole answer took beyond the shortest one."""
        took = [each.ended - each.began for each in self.answers if not each.problem]
        return max(took) - min(took)

    @property
    def unread(self) -> list[Answer]:
        """The failed requests that no engine had begun to read: an end breaks off what it has."""
        ended = (BROKE_OFF, "500", "502", "ChunkedEncodingError")
        return [each for each in self.failed if not str(each.problem).startswith(ended)]

    def served(self) -> set[int]:
        return {answer.client for answer in self.answers if not answer.problem}


@contextmanager
def load(
    spark: Handle,
    clients: int = CLIENTS,
    pause: float = PAUSE,
    port: int = PORT,
    model: str = "tiny",
) -> Iterator[Load]:
    """Keep clients asking: each has an answer when the block begins, and one after its end."""
    seen, stop = Load(), threading.Event()
    url = f"http://{spark.address}:{port}/v1/chat/completions"
    headers = authorization()

    def ask_on(client: int) -> None:
        # One connection is kept, as clients keep theirs.
        with requests.Session() as session:
            last = False
            while not last:
                last = stop.is_set()
                began = time.monotonic()
                problem = _ask(session, url, headers, BODY | {"model": model})
                seen.answers.append(Answer(client, began, time.monotonic(), problem))
                stop.wait(0.5 if problem else pause)

    threads = [threading.Thread(target=ask_on, args=[client]) for client in range(clients)]
    for thread in threads:
        thread.start()
    try:
        eventually(lambda: len(seen.served()) == clients, "an answer to each client")
        yield seen
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    last = {answer.client: answer for answer in seen.answers}
    assert [answer for answer in last.values() if answer.problem] == []


def _ask(
    session: requests.Session, url: str, headers: dict[str, str], body: dict[str, object]
) -> str | None:
    """Return why an answer was not whole; None for a whole one."""
    try:
        with session.post(
            url, json=body, headers=headers, stream=True, timeout=patience(LONGEST)
        ) as answer:
            if not answer.ok:
                return f"{answer.status_code} {answer.text[:200]}"
            lines = [line for line in answer.iter_lines() if line]
    except requests.RequestException as error:
        return repr(error)
    # vLLM says in the stream why it ends, and then that it is done.
    errors = [line for line in lines if b'"error"' in line]
    whole = lines and lines[-1] == b"data: [DONE]" and not errors
    return None if whole else f"{BROKE_OFF}: {errors or lines[-1:]}"
