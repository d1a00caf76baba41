"""The judge: what ended a life of a Spark that no shutdown ended, by its last lines.

Each cause needs a witness: a reading at its limit, or a word of the kernel's. A supply that fails
leaves none: so "power" is said of readings that were in order to the last, and "unknown" of those
that were near a limit, where nothing tells a Spark that froze from one that lost its power.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from host.insight.recorder.ring import Line

# Per cent of the memory: below 2, where earlyoom acts, a Spark freezes (sparkwright/plan/causes/
# thresholds.py); with 4 it is near that, and with 10 it is not. Per cent of pressure: systemd-oomd
# acts at 60 over 30 s; ours is of 10 s.
GONE, NEAR, ENOUGH, STALLED, WAITING = 2, 4, 10, 40, 20
# °C of the GPU: owners saw Sparks go off at 91 and 92, and none at 80 once the clock was limited
# (NVIDIA/open-gpu-kernel-modules#1358; MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#146).
HOT, WARM = 90, 86
# Our own choice. MiB on a full disk; seconds of readings that count, without any line, and without
# an answer of nvidia-smi.
FULL, SECONDS, STILL, MUTE = 100, 10, 10, 8
# Cause -> the kernel's words for it, and for how many seconds before the end they count. The Xids
# are those after which NVIDIA's catalog resets a GPU; others, as 13, 31, 43, end a program alone.
KERNEL = {
    "memory": ("out of memory|oom-kill:|NV_ERR_NO_MEMORY", 30),
    "heat": ("critical temp|hardware protection|thermal.{0,40}(shutdown|emerg)", 120),
    "driver": (
        r"Xid.{0,40}: (48|62|64|74|79|95|109|119|120|140|143|15[4-8]),|fallen off the bus|"
        r"AER:.*\b(fatal|uncorrect)|severity=uncorr|mlx5.*(fatal|dropped off)",
        600,
    ),
    "lock-up": (
        r"(soft|hard) lockup|kernel panic|rcu.*stall|blocked for more|\bOops|kernel BUG|"
        "unable to handle kernel|watchdog reset",
        120,
    ),
    "disk": ("EXT4-fs error|I/O error, dev|nvme.*(timeout|is down)|remounting.*read-only", 120),
}
# What is worth a line: also what only helps a person who reads it.
NOTED = re.compile("|".join([*(each for each, _ in KERNEL.values()), "NVRM|AER:|thermal"]), re.I)


class Judgment(NamedTuple):
    """A cause, "unknown" where the lines do not tell; and what shows it, or why they do not."""

    cause: str
    why: str


def judge(lines: Sequence[Line], total: float) -> Judgment:
    """Return what ended a life, by its lines from the oldest, and the Spark's MiB of memory."""
    end = max((each.up for each in lines), default=0.0)
    samples = [each for each in lines if not each.word]
    minute = [each for each in samples if samples[-1].up - each.up <= 60]
    last = [each for each in minute if samples[-1].up - each.up <= SECONDS]
    shares = [100 * each / total for each in _all(last, "available")]
    left, pressure = min(shares, default=100), max(_all(last, "memory"), default=0)
    hottest = max(_all(last, "celsius"), default=0)
    final = minute[-1].now if minute else {}
    pause = max((after.up - before.up for before, after in pairwise(minute)), default=0)
    # A full engine leaves as little all day long.
    held = _all(minute, "available")
    short = pressure >= WAITING or (left < NEAR and max(held) - min(held) > total / 100)
    told = max((each.up for each in minute if "celsius" in each.now), default=end)
    had = f"{left:.1f} % of the memory could be had, pressure {pressure:.0f} %"
    names = {"watts": "W", "celsius": "°C", "available": "MiB of memory left"}
    fine = ", ".join(f"{final[key]:.0f} {unit}" for key, unit in names.items() if key in final)
    said = {cause: _said(lines, cause, end - within) for cause, (_, within) in KERNEL.items()}
    if shares and shares[-1] >= ENOUGH:
        # The kernel made room, by ending a program, and went on.
        said["memory"] = _said(lines, "memory", end - SECONDS / 2)
    rules = (
        (said["memory"], "memory", said["memory"]),
        (left < GONE or (left < ENOUGH and pressure >= STALLED), "memory", had),
        (hottest >= HOT, "heat", f"the GPU had {hottest:.0f} °C"),
        *((word, cause, word) for cause, word in said.items()),
        (len(minute) < 3, "unknown", f"lines of its last minute: {len(minute)}"),
        (final.get("disk", FULL) < FULL, "disk", f"{final.get('disk', 0):.0f} MiB were free"),
        (pause >= STILL and short, "memory", f"it stood still for {pause:.0f} s; {had}"),
        (pause >= STILL, "lock-up", f"it stood still for {pause:.0f} s"),
        (short, "unknown", f"memory was short, and not gone: {had}"),
        (end - told >= MUTE, "driver", f"nvidia-smi told nothing in its last {end - told:.0f} s"),
        (hottest >= WARM, "unknown", f"the GPU was hot, and not at its limit: {hottest:.0f} °C"),
        (True, "power", f"all was in order to the last line: {fine or 'it has no readings'}"),
    )
    return next(Judgment(cause, why) for holds, cause, why in rules if holds)


def trouble(now: dict[str, float], total: float) -> int:
    """Return how many limits readings are beyond."""
    share, pressure = 100 * now["available"] / total, now.get("memory", 0)
    heat = now.get("celsius", 0)
    limits = (share < ENOUGH, share < NEAR, share < GONE, pressure >= WAITING, pressure >= STALLED)
    return sum((*limits, heat >= WARM, heat >= HOT))


def _said(lines: Iterable[Line], cause: str, since: float) -> str:
    """Return the kernel's last word for a cause since a time; "" without one."""
    words = [each.word for each in lines if each.up >= since]
    return next((each for each in reversed(words) if re.search(KERNEL[cause][0], each, re.I)), "")


def _all(samples: Iterable[Line], name: str) -> list[float]:
    return [each.now[name] for each in samples if name in each.now]
