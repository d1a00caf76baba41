"""The flight recorder's lines, and what ended a life of a Spark that no shutdown ended, by them.

Each cause needs a witness: a message of the kernel, or a reading at its limit. A supply that fails
leaves none: "power" is said of readings that were in order to the last, "not known" near a limit.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

# A line's "text", and the readings of its second by their names, or "word", what the kernel said.
Line = dict[str, Any]
# Seconds since the epoch, and since the boot; the GPU's W, °C and MHz; per cent of the memory that
# is available, and of ten seconds in which something waited for memory, disk, processor (PSI); MiB
# of swap in use, and free on the disk; the engines' steps. Or two, "!" and a message of the kernel.
HEAD = "time up watts celsius megahertz available memory io cpu swap disk steps"
_NUMBER = re.compile(r"\d{1,12}(\.\d{1,3})?", re.ASCII)
_FIELDS = rf"( (-|{_NUMBER.pattern})){{10}}| ! [ -~]{{1,160}}"
_LINE = re.compile(rf"\d{{1,12}} \d{{1,12}}({_FIELDS})", re.ASCII)
# Per cent of the memory: below 2, where earlyoom acts, a Spark freezes (sparkwright/plan/causes/
# thresholds.py). Per cent of pressure: systemd-oomd acts at 60 over 30 s; ours is of 10 s. °C of
# the GPU: owners saw Sparks go off at 91 and 92, and none at 80 once the clock was limited
# (NVIDIA/open-gpu-kernel-modules#1358; MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#146).
GONE, NEAR, SHORT, WAITING, STALLED, WARM, HOT = 2, 4, 10, 20, 40, 86, 90
# Our own choice: seconds of last readings, of a standstill, and in which words of the kernel count;
# "out of memory" counts for less, as room is made by ending a program.
SECONDS, STILL, WORDS, KILLED = 10, 10, 120, 15
# Cause -> the kernel's words for it. The Xids are those after which NVIDIA's catalog resets a GPU;
# others, as 13, 31, 43, end a program alone.
KERNEL = {
    "memory": "out of memory|oom-kill:|NV_ERR_NO_MEMORY",
    "heat": "critical temp|hardware protection|thermal.{0,40}(shutdown|emerg)",
    "driver": r"Xid.{0,40}: (48|62|64|74|79|95|109|119|120|140|143|15[4-8]),|fallen off the bus|"
    r"AER:.*\b(fatal|uncorrect)|severity=uncorr|mlx5.*(fatal|dropped off)|nvme.*is down",
    "lock-up": r"(soft|hard) lockup|kernel panic|rcu.*stall|blocked for more|\bOops|kernel BUG|"
    "unable to handle kernel|watchdog reset",
}
NOTED = re.compile("|".join([*KERNEL.values(), "NVRM|AER:|thermal|EXT4-fs error|I/O error"]), re.I)


def line(values: Iterable[object], word: str = "") -> str:
    """Return a line of values in the order of HEAD, or of the first two, and a message."""
    texts = (str(each).strip() for each in values)
    readings = " ".join(each if _NUMBER.fullmatch(each) else "-" for each in texts)
    said = "".join(each if " " <= each <= "~" else "?" for each in word[:160])
    return f"{readings} ! {said}" if said else readings


def parse(texts: Iterable[str]) -> Iterator[Line]:
    """Yield what lines say, without those that are damaged."""
    for text in filter(_LINE.fullmatch, texts):
        readings, _, word = text.partition(" ! ")
        pairs = zip(HEAD.split(), readings.split(" "), strict=False)
        found = {name: float(each) for name, each in pairs if each != "-"}
        yield {"text": text, "word": word, **found}


def worst(readings: Sequence[Line]) -> tuple[float, float, float, int]:
    """Return the least memory, the most pressure and °C, and how many limits they are beyond."""
    free = min((now.get("available", 100) for now in readings), default=100)
    pressure, heat = (max([0, *(n.get(key, 0) for n in readings)]) for key in ("memory", "celsius"))
    limits = (free < SHORT, free < NEAR, free < GONE, pressure >= WAITING, pressure >= STALLED)
    return free, pressure, heat, sum((*limits, heat >= WARM, heat >= HOT))


def judge(lines: Sequence[Line]) -> tuple[str, str]:
    """Return the cause by a life's lines, from the oldest, and what shows it."""
    end = max((each["up"] for each in lines), default=0)
    said = dict.fromkeys(("not known", "power"), "")
    for cause, words in KERNEL.items():
        within = KILLED if cause == "memory" else WORDS
        recent = (each["word"] for each in reversed(lines) if end - each["up"] <= within)
        said[cause] = next((each for each in recent if re.search(words, each, re.I)), "")
    minute = [each for each in lines if not each["word"] and end - each["up"] <= 60]
    last = [each for each in minute if end - each["up"] <= SECONDS]
    free, pressure, heat, _ = worst(last)
    pause = max((after["up"] - before["up"] for before, after in pairwise(minute)), default=0)
    mute = bool(last) and "celsius" in minute[0] and not any("celsius" in now for now in last)
    stalls = pressure >= STALLED or pause >= STILL
    found = f"{free:.1f} % of the memory left, pressure {pressure:.0f} %, {heat:.0f} °C"
    rules = (
        ("memory", free < GONE or (free < SHORT and stalls), found),
        ("heat", heat >= HOT, found),
        ("driver", mute, f"nvidia-smi said nothing in its last {SECONDS} s"),
        ("lock-up", pause >= STILL, f"it stood still for {pause:.0f} s"),
        ("not known", len(minute) < 3, f"lines of its last minute: {len(minute)}"),
        ("not known", free < NEAR or pressure >= WAITING or heat >= WARM, f"near a limit: {found}"),
        ("power", True, f"all was in order to the last line: {found}"),
    )
    return next((cause, said[cause] or why) for cause, holds, why in rules if holds or said[cause])
