"""The engine's core as the server sees it: requests go there, tokens and counters come back."""

import argparse
import os
import queue
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

from standin import core, pooling, tools
from standin.core import Request, Step
from standin.metrics import Metrics
from standin.tokens import Tokenizer

# Seconds in which clients are told that the engine is dead.
GOODBYE = 1.0
_DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."
_DRAINING = "cannot schedule new futures after shutdown"


class RefusedError(Exception):
    def __init__(self, status: int, message: str, kind: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body = {"message": message, "type": kind, "param": param, "code": status}


class Engine:
    def __init__(self, options: argparse.Namespace, config: dict[str, Any]) -> None:
        self.options = options
        self.kind = pooling.kind(options, config)
        # Numbers of a vector.
        self.size: int = config.get("text_config", config)["hidden_size"]
        self.name: str = (options.served_model_name or [options.model_tag])[0]
        self.metrics = Metrics(self.name)
        self.tokenizer = Tokenizer(Path(options.model_tag) / "tokenizer.json")
        self.parser: tools.Parser | None = None
        if options.tool_call_parser:
            found = tools.Manager.get_tool_parser(options.tool_call_parser)
            self.parser = found(self.tokenizer.vocabulary)
        self.dead = self.draining = False
        self.answers: dict[int, tuple[Request, queue.SimpleQueue[bool], list[float]]] = {}
        self.in_flight: set[int] = set()
        self._numbers = count()
        self._core, theirs = Pipe()

        def work() -> None:
            self._core.close()
            core.core(options, theirs)

        self.process = core.fork("VLLM::EngineCore", work)
        theirs.close()

    def start(self) -> None:
        """Return when the core is ready. Raises RuntimeError: it does not become so."""
        try:
            self._core.recv()
        except EOFError:
            raise RuntimeError(
                "Engine core initialization failed. See root cause above. Failed core proc(s): {}"
            ) from None

    def follow(self) -> None:
        """Take what the core says until it is dead."""
        try:
            while True:
                self._take(self._core.recv())
        except (EOFError, OSError):
            self.dead = True
            for _, tokens, _ in list(self.answers.values()):
                tokens.put(False)

    def drain(self) -> None:
        """Finish what is in flight, if the core lives and as long as that may take; then end it."""
        self.draining = True
        deadline = time.monotonic() + self.options.shutdown_timeout
        while self.in_flight and not self.dead and time.monotonic() < deadline:
            time.sleep(0.02)
        with suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)
        # Its clients learn why they get no more.
        deadline = time.monotonic() + GOODBYE
        while self.in_flight and time.monotonic() < deadline:
            time.sleep(0.02)

    def _take(self, step: Step) -> None:
        now = time.monotonic()
        new = 0
        for number in step.numbers:
            if number not in self.answers:
                continue
            request, tokens, times = self.answers[number]
            if len(times) == 1:
                new += request.prompt
                self.metrics.add("prompt_tokens_total", request.prompt)
                self.metrics.add("prefix_cache_queries_total", request.prompt)
                self.metrics.observe("time_to_first_token_seconds", now - times[0])
            else:
                self.metrics.observe("inter_token_latency_seconds", now - times[-1])
            times.append(now)
            self.metrics.add("generation_tokens_total", not request.pools)
            tokens.put(True)
        if step.numbers:
            self.metrics.observe("iteration_tokens_total", new + len(step.numbers))
        self.metrics.set("num_requests_running", step.running)
        self.metrics.set("num_requests_waiting", step.waiting)
        self.metrics.set("kv_cache_usage_perc", step.usage)

    def write(
        self,
        tokens: int,
        text: list[str],
        reason: str,
        gone: Callable[[], bool],
        pools: bool = False,
    ) -> Iterator[str]:
        """Yield the tokens of an answer as the core writes them, until the client is `gone`."""
        if self.draining or self.dead:
            raise RefusedError(500, _DEAD if self.dead else _DRAINING, "InternalServerError")
        number = next(self._numbers)
        request, written = Request(number, tokens, len(text), pools), queue.SimpleQueue[bool]()
        times = [time.monotonic()]
        self.answers[number] = request, written, times
        ended = False
        try:
            self._core.send(request)
            for token in text:
                alive: bool | None = None
                while alive is None:
                    if gone():
                        return
                    with suppress(queue.Empty):
                        alive = written.get(timeout=0.5)
                if not alive:
                    raise RefusedError(500, _DEAD, "InternalServerError")
                yield token
            ended = True
            self._finished(request, times)
            self.metrics.add("request_success_total", 1, f'finished_reason="{reason}"')
        except OSError:
            raise RefusedError(500, _DEAD, "InternalServerError") from None
        finally:
            del self.answers[number]
            if not ended and not self.dead:
                self._core.send(number)

    def _finished(self, request: Request, times: list[float]) -> None:
        begun, first, last, written = times[0], times[1], times[-1], len(times) - 1
        self.metrics.observe("request_prompt_tokens", request.prompt)
        self.metrics.observe("request_generation_tokens", written)
        self.metrics.observe("e2e_request_latency_seconds", last - begun)
        self.metrics.observe(
            "request_time_per_output_token_seconds", (last - first) / max(1, written - 1)
        )
