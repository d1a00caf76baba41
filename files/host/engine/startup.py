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
from collections.abc import Iterator, Sequence
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
_KV = re.compile(r"Available KV cache memory: ([0-9]{1,4}\.[0-9]{1,2}) GiB")
_COMPILES = re.compile(r"Compiling a graph for")
_LISTENS = re.compile(r"Application startup complete")
_BEGUN = re.compile(r"^starting the engine$")
# Phase -> the lines that begin and end it: our supervisor's, of the model (the second, of the V2
# model runner), FlashInfer's, and of the server once the engine is whole.
_SPANS = {
    "init": (_BEGUN, re.compile(r"Starting to load model|Loading model from scratch")),
    "autotune": (re.compile(r"Autotuning process starts"), re.compile(r"Autotuning process ends")),
    "server": (re.compile(r"init engine \(.*\) took"), _LISTENS),
}
_WANTED = (*_TIMED.values(), _KV, _COMPILES, *(mark for span in _SPANS.values() for mark in span))


def phases(kept: Sequence[tuple[float, str]], seconds: float) -> dict[str, float]:
    """Return phase -> seconds of a start, by the times and lines of its log, and its length."""
    found: dict[str, float] = {}
    for _, line in kept:
        for phase, pattern in _TIMED.items():
            if match := pattern.search(line):
                # The model's weights come before those of the drafter.
                name = "drafter" if phase == "weights" and phase in found else phase
                found[name] = found.get(name, 0.0) + float(match[1])
    for name, (begins, ends) in _SPANS.items():
        since, until = _time_of(kept, begins), _time_of(kept, ends)
        if since is not None and until is not None:
            found[name] = until - since
    begun, listens = _time_of(kept, _BEGUN), _time_of(kept, _LISTENS)
    if begun is not None and listens is not None:
        found["token"] = begun + seconds - listens
    return {name: round(length, 3) for name, length in found.items() if length >= 0}


def _time_of(kept: Sequence[tuple[float, str]], pattern: re.Pattern[str]) -> float | None:
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
                break
            if any(each.search(message) for each in _WANTED):
                yield float(head.split()[0]), message
        reader.terminate()


def keep(
    root: Path, release: str, seconds: float, end: str, kept: Sequence[tuple[float, str]]
) -> None:
    """Add a start to those of its seat; the oldest ones go."""
    compiled = any(_COMPILES.search(line) for _, line in kept)
    sizes = [float(match[1]) for _, line in kept if (match := _KV.search(line))]
    new = {
        "at": round(time.time()),
        "release": release,
        **starts.known(root, release),
        "kind": "standby" if end == "standby" else "cold" if compiled else "warm",
        "seconds": round(seconds, 1),
        "phases": phases(kept, seconds),
        # One that was given the size has measured nothing.
        "kv_gib": min(sizes, default=starts.kv_gib(root, release)),
        "failed": "" if end in ("serving", "standby") else end,
    }
    gone = starts.alike(root, release)[: 1 - KEPT]
    before = [each for each in starts.read(root) if each not in gone]
    text = "".join(f"{json.dumps(each)}\n" for each in [*before[1 - MOST :], new])
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
