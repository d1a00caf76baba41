"""start ROOT RELEASE SECONDS END: keep where the seconds of an engine's start went.

For the supervisor of that engine, of whose life it reads the journal. It is no part of a release:
to know the words of another vLLM changes none. END is "serving", "standby" for one that serves and
had a head start, or in a word why it failed.
"""

import json
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from subprocess import PIPE, Popen

from host.common import starts
from host.common.atomic import replace
from host.common.command_line import words

# Starts that are kept of an image and recipe, and in all.
KEPT, MOST = 20, 100

# Log lines of vLLM 0.17 to 0.33, and of FlashInfer, which have a time.
_SECONDS = r"([0-9]{1,7}(?:\.[0-9]+)?)"
_TIMED = {
    "weights": re.compile(rf"Loading weights took {_SECONDS} seconds"),
    "compile": re.compile(rf"torch\.compile (?:takes|took) {_SECONDS} s in total"),
    "warmup": re.compile(rf"Initial profiling/warmup run took {_SECONDS} s"),
    "graphs": re.compile(rf"Graph capturing finished in {_SECONDS} secs"),
}
_COMPILES = re.compile(r"Compiling a graph for")
_TUNING = re.compile(
    r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) .*\[Autotuner\]:? Autotuning process (starts|ends)"
)
# Our supervisor's first word of a start, and vLLM's: of the model (the second, of its V2 model
# runner), when the engine is whole, and when its server is.
_BEGUN = re.compile(r"^starting the engine$")
_LOADS = re.compile(r"Starting to load model|Loading model from scratch")
_WHOLE = re.compile(r"init engine \(profile, create kv cache, warmup model\) took")
_LISTENS = re.compile(r"Application startup complete")
_WANTED = re.compile(
    "|".join(
        each.pattern
        for each in (*_TIMED.values(), _COMPILES, _TUNING, _BEGUN, _LOADS, _WHOLE, _LISTENS)
    )
)


def timings(lines: Iterable[str]) -> dict[str, float]:
    """Return the seconds of the phases of which lines tell them."""
    found: dict[str, float] = {}
    tuning = None
    for line in lines:
        for phase, pattern in _TIMED.items():
            if match := pattern.search(line):
                # The model's weights come before those of the drafter.
                name = "drafter" if phase == "weights" and phase in found else phase
                found[name] = found.get(name, 0.0) + float(match[1])
        if match := _TUNING.search(line):
            try:
                at = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S,%f")
            except ValueError:
                # The log of an engine is untrusted: this is no time.
                continue
            if match[2] == "starts":
                tuning = at
            elif tuning:
                found["autotune"] = found.get("autotune", 0.0) + (at - tuning).total_seconds()
    return found


def phases(kept: Sequence[tuple[float, str]], seconds: float) -> dict[str, float]:
    """Return phase -> seconds of a start, by the times and lines of its log, and its length."""
    found = timings(line for _, line in kept)
    begun, loads, whole, listens = (_at(kept, p) for p in (_BEGUN, _LOADS, _WHOLE, _LISTENS))
    serves = None if begun is None else begun + seconds
    for name, since, until in (
        ("init", begun, loads),
        ("server", whole, listens),
        ("token", listens, serves),
    ):
        if since is not None and until is not None:
            found[name] = until - since
    return {name: round(length, 3) for name, length in found.items() if length >= 0}


def _at(kept: Sequence[tuple[float, str]], pattern: re.Pattern[str]) -> float | None:
    return next((at for at, line in kept if pattern.search(line)), None)


def journal(life: str) -> Iterator[tuple[float, str]]:
    """Yield time and text of the lines that tell a phase, of an invocation of a unit."""
    command = ["journalctl", "--quiet", "--output=short-unix", f"_SYSTEMD_INVOCATION_ID={life}"]
    with Popen(command, stdout=PIPE, text=True, errors="replace") as reader:
        assert reader.stdout
        # TIME HOST PROGRAM[ID]: MESSAGE
        for line in reader.stdout:
            head, _, message = line.rstrip("\n").partition("]: ")
            # An engine that serves logs each request: nothing of its start comes after.
            if message == "serving":
                reader.terminate()
                return
            if _WANTED.search(message):
                yield float(head.split()[0]), message


def keep(
    root: Path, release: str, seconds: float, end: str, kept: Sequence[tuple[float, str]]
) -> None:
    """Add a start to those of its seat; of the oldest ones, some go."""
    if not (known := starts.known(root, release)):
        return
    compiled = any(_COMPILES.search(line) for _, line in kept)
    new = {
        "at": round(time.time()),
        "release": release,
        **known,
        "kind": "standby" if end == "standby" else "cold" if compiled else "warm",
        "seconds": round(seconds, 1),
        "phases": phases(kept, seconds),
        "failed": "" if end in ("serving", "standby") else end,
    }
    before = starts.read(root)
    like = [each for each in before if {**each, **known} == each]
    old = [each for each in before if each not in like[: 1 - KEPT]]
    text = "".join(f"{json.dumps(each)}\n" for each in [*old[1 - MOST :], new])
    replace(root / "state/starts", text)


def command() -> None:
    """Keeps the start that the command line names."""
    root, release, seconds, end = words(__doc__, "ROOT", "RELEASE", "SECONDS", "END")
    life = os.environ.get("INVOCATION_ID", "")
    try:
        keep(Path(root), release, float(seconds), end, [*journal(life)] if life else [])
    except (OSError, ValueError) as error:
        # An engine starts without it as well.
        sys.exit(f"where the seconds of this start went is not kept: {error}")
