"""The progress of a job on a Spark, as text."""

import math
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Literal

from sparkwright.common.terminal import plain

_OfBytes = Literal["verifying", "downloading", "exporting", "copying", "loading", "extracting"]
Phase = _OfBytes | Literal["building", "measuring", "done", "failed"]
# Phases that count something else than bytes.
_STEPS: dict[Phase, str] = {"building": "steps", "measuring": "workloads"}

# Seconds between two lines of a job on a terminal, and in a log.
_TERMINAL_LINES, _LOG_LINES = 2, 10
# Seconds over which the rate is averaged: less makes it jump, more makes it lag.
_RATE_WINDOW = 20


@dataclass(frozen=True)
class JobProgress:
    """The last report of a job; `done` and `total` are bytes of the phase, or its steps."""

    phase: Phase
    done: int
    total: int
    message: str


class ProgressLines:
    """Shows the reports of one job, a line every few seconds, with a rate and the time left."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._shown = say, -math.inf
        self._every = _TERMINAL_LINES if sys.stderr.isatty() else _LOG_LINES
        self._phase: Phase | None = None
        self._samples: deque[tuple[float, int]] = deque()

    def show(self, progress: JobProgress) -> None:
        """Take in a report, and say it if the last line was long enough ago."""
        now = time.monotonic()
        line = self.line(progress, now)
        if now - self._shown >= self._every:
            self._shown = now
            self._say(line)

    def line(self, progress: JobProgress, now: float) -> str:
        """Return one line such as "downloading 12.3 of 22.0 GB · 98 MB/s · 1 min 40 s left"."""
        if progress.phase != self._phase:
            self._phase = progress.phase
            self._samples.clear()
        self._samples.append((now, progress.done))
        while self._samples[0][0] < now - _RATE_WINDOW:
            self._samples.popleft()
        if unit := _STEPS.get(progress.phase):
            # Steps have no rate, as they take different times.
            parts = [f"{progress.phase}, {progress.done} of {progress.total} {unit} done"]
        else:
            scale, unit = _unit(progress.total)
            share = f"{progress.done / scale:.1f} of {progress.total / scale:.1f} {unit}"
            parts = [f"{progress.phase} {share}"]
            begun, before = self._samples[0]
            if now - begun >= 1:
                rate = max(0.0, (progress.done - before) / (now - begun))
                parts.append(f"{size_text(rate)}/s")
                if rate:
                    parts.append(f"{duration_text((progress.total - progress.done) / rate)} left")
        if progress.message:
            parts.append(progress.message)
        return plain(" · ".join(parts))


def size_text(size: float) -> str:
    """Return bytes as "22.0 GB": powers of 1000, as disks and the hub count."""
    scale, unit = _unit(size)
    value = size / scale
    return f"{value:.0f} {unit}" if value >= 99.95 or unit == "kB" else f"{value:.1f} {unit}"


def time_text(seconds: float, form: str, zone: tzinfo | None = None) -> str:
    """Return seconds since the epoch in a format of `strftime`; "no time" for an impossible one."""
    try:
        return datetime.fromtimestamp(seconds, zone).strftime(form)
    except (OverflowError, OSError, ValueError):
        return "no time"


def duration_text(seconds: float) -> str:
    """Return seconds as "45 s", "1 min 40 s", "2 h 5 min" or "365 days"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    if whole >= 2 * 86_400:
        return f"{round(whole / 86_400):,} days"
    return f"{minutes // 60} h {minutes % 60} min"


def _unit(size: float) -> tuple[float, str]:
    return (1e9, "GB") if size >= 1e9 else (1e6, "MB") if size >= 1e6 else (1e3, "kB")
