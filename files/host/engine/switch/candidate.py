"""The release that is to serve: its start, its first answer, and its trial."""

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from host.common import probe
from host.engine.switch.check import Refusal
from host.engine.switch.report import Report
from host.engine.switch.units import Unit, reset_failed, systemctl

# Seconds for one token at a start, as sparkwright/engine/engine.py gives one.
TOKEN = 60.0
# Seconds for what an engine's start takes beside the engine: Docker, and the peer of a pair.
MARGIN = 120


class Candidate:
    """One release, from its start on.

    Args:
        unit: its unit.json.
        pause: waits a moment; ends the switch by an exception where that is asked for.
    """

    def __init__(
        self,
        root: Path,
        release: str,
        unit: Mapping[str, Any],
        report: Report,
        pause: Callable[[], None],
    ) -> None:
        self._root = root
        self._release = release
        self._unit = unit
        self._is_worker = bool(unit["rank"])
        self._report = report
        self._pause = pause
        self._invocation = ""

    def start(self) -> None:
        """Return when it has given an answer; refuse one that does not within its budget."""
        seconds = self._unit["start_timeout"] + MARGIN
        deadline = time.monotonic() + seconds
        self._report.say("starting", total=seconds)
        name = f"vllm@{self._release}.service"
        reset_failed(name)
        if not Unit(self._release).active:
            systemctl("start", "--no-block", name)
        while not (now := Unit(self._release)).active:
            if not now.starting:
                raise Refusal(f"{name} did not start: {now.why}")
            if time.monotonic() > deadline:
                raise Refusal(f"{name} did not serve within {seconds} s: {now.why}")
            self._pause()
        self._invocation = now.invocation
        self._answer(deadline)

    def watch(self, seconds: int) -> None:
        """Watch it at work for a while; refuse one that ends.

        Its supervisor ends one that hangs, and knows it from one with more work than places, which
        answers nothing for minutes.
        """
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < seconds:
            self._report.say("trial", done=int(passed), total=seconds)
            self._check_life()
            self._pause()
        self._check_life()

    def _answer(self, deadline: float) -> None:
        """Have a token; refuse an engine that gives none by then, or ends.

        A worker is asked for none.
        """
        if self._is_worker:
            return
        engine = probe.Engine(self._root, self._release, self._unit["model"], self._unit["answers"])
        while True:
            problem = _token(engine)
            if problem is None:
                return
            self._check_life()
            if time.monotonic() > deadline:
                raise Refusal(f"{self._release} gives no answer: {problem}")
            self._pause()

    def _check_life(self) -> None:
        now = Unit(self._release)
        if not now.active or now.invocation != self._invocation:
            raise Refusal(
                f"vllm@{self._release}.service ended after it had begun to serve: {now.why}"
            )


def _token(engine: probe.Engine) -> str | None:
    """Have one token; return what came instead."""

    async def ask() -> None:
        async with asyncio.timeout(TOKEN):
            await engine.token()

    try:
        asyncio.run(ask())
    except (probe.NoTokenError, OSError, ValueError) as error:
        return str(error) or f"no answer within {TOKEN:g} s"
    return None
