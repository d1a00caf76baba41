"""The release that is to serve: its start, and its trial."""

import time
from collections.abc import Callable

from host.engine.switch.check import Refusal
from host.engine.switch.report import Report
from host.engine.switch.units import Unit, reset_failed, systemctl

# Seconds for what an engine's start takes beside the engine: Docker, and the peer of a pair.
MARGIN = 120


class Candidate:
    """One release, from its start on.

    Args:
        seconds: within which it starts, beside `MARGIN`.
        pause: waits a moment; ends the switch by an exception where that is asked for.
    """

    def __init__(
        self, release: str, seconds: int, report: Report, pause: Callable[[], None]
    ) -> None:
        self._release = release
        self._seconds = seconds + MARGIN
        self._report = report
        self._pause = pause
        self._invocation = ""

    def start(self) -> None:
        """Return when it serves; refuse one that does not within its budget.

        Its unit is active once its supervisor has had a real token of it.
        """
        deadline = time.monotonic() + self._seconds
        self._report.say("starting", total=self._seconds)
        name = f"vllm@{self._release}.service"
        reset_failed(name)
        if not Unit(self._release).active:
            systemctl("start", "--no-block", name)
        while not (now := Unit(self._release)).active:
            if not now.starting:
                raise Refusal(f"{name} did not start: {now.why}")
            if time.monotonic() > deadline:
                raise Refusal(f"{name} did not serve within {self._seconds} s: {now.why}")
            self._pause()
        self._invocation = now.invocation

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

    def _check_life(self) -> None:
        now = Unit(self._release)
        if not now.active or now.invocation != self._invocation:
            raise Refusal(
                f"vllm@{self._release}.service ended after it had begun to serve: {now.why}"
            )
