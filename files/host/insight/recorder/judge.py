"""The judge: what ended a life of a Spark that no shutdown ended, by its last lines.

Each cause needs a witness: a message of the kernel, or a reading at its limit. A supply that fails
leaves none: "power" is said of readings that were in order to the last, "unknown" near a limit.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

from host.insight.recorder.ring import Line

# Per cent of the memory: below 2, where earlyoom acts, a Spark freezes (sparkwright/plan/causes/
# thresholds.py). Per cent of pressure: systemd-oomd acts at 60 over 30 s; ours is of 10 s. °C of
# the GPU: owners saw Sparks go off at 91 and 92, and none at 80 once the clock was limited
# (NVIDIA/open-gpu-kernel-modules#1358; MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#146).
GONE, NEAR, SHORT, WAITING, STALLED, WARM, HOT = 2, 4, 10, 20, 40, 86, 90
# Our own choice: MiB on a full disk; seconds of last readings, of a standstill, and in which words
# of the kernel count; "out of memory" counts for less, as room is made by ending a program.
FULL, SECONDS, STILL, WORDS, KILLED = 100, 10, 10, 120, 15
# Cause -> the kernel's words for it. The Xids are those after which NVIDIA's catalog resets a GPU;
# others, as 13, 31, 43, end a program alone.
KERNEL = {
    "memory": "out of memory|oom-kill:|NV_ERR_NO_MEMORY",
    "heat": "critical temp|hardware protection|thermal.{0,40}(shutdown|emerg)",
    "driver": (
        r"Xid.{0,40}: (48|62|64|74|79|95|109|119|120|140|143|15[4-8]),|fallen off the bus|"
        r"AER:.*\b(fatal|uncorrect)|severity=uncorr|mlx5.*(fatal|dropped off)"
    ),
    "disk": "EXT4-fs error|I/O error, dev|nvme.*(timeout|is down)|remounting.*read-only",
    "lock-up": (
        r"(soft|hard) lockup|kernel panic|rcu.*stall|blocked for more|\bOops|kernel BUG|"
        "unable to handle kernel|watchdog reset"
    ),
}
# What is worth a line: also what only helps a person who reads it.
NOTED = re.compile("|".join([*KERNEL.values(), "NVRM|AER:|thermal"]), re.I)


def judge(lines: Sequence[Line], total: float) -> tuple[str, str]:
    """Return a cause, or "unknown", and what shows it; by lines from the oldest, MiB of memory."""
    end = max((each.now["up"] for each in lines), default=0)
    said = dict.fromkeys(("unknown", "power"), "")
    for cause, words in KERNEL.items():
        within = KILLED if cause == "memory" else WORDS
        recent = (each.word for each in reversed(lines) if end - each.now["up"] <= within)
        said[cause] = next((each for each in recent if re.search(words, each, re.I)), "")
    minute = [each.now for each in lines if not each.word and end - each.now["up"] <= 60]
    last = [now for now in minute if end - now["up"] <= SECONDS]
    free = 100 * min((now.get("available", total) for now in last), default=total) / total
    disk = min((now.get("disk", FULL) for now in last), default=FULL)
    pressure, heat = (max([0, *(n.get(name, 0) for n in last)]) for name in ("memory", "celsius"))
    pause = max((after["up"] - before["up"] for before, after in pairwise(minute)), default=0)
    mute = bool(last) and "celsius" in minute[0] and not any("celsius" in now for now in last)
    stalls = pressure >= STALLED or pause >= STILL
    found = f"{free:.1f} % of the memory left, pressure {pressure:.0f} %, {heat:.0f} °C"
    rules = (
        ("memory", free < GONE or (free < SHORT and stalls), found),
        ("heat", heat >= HOT, found),
        ("driver", mute, f"nvidia-smi said nothing in its last {SECONDS} s"),
        ("disk", disk < FULL, f"{disk:.0f} MiB were free on the disk"),
        ("lock-up", pause >= STILL, f"it stood still for {pause:.0f} s"),
        ("unknown", len(minute) < 3, f"lines of its last minute: {len(minute)}"),
        ("unknown", free < NEAR or pressure >= WAITING or heat >= WARM, f"near a limit: {found}"),
        ("power", True, f"all was in order to the last line: {found}"),
    )
    return next((cause, said[cause] or why) for cause, holds, why in rules if holds or said[cause])
