"""The durations of a start's phases, read from vLLM's log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

COLD_START, WARM_START = "start-cold", "start-warm"

# Metric, in seconds -> its label.
PHASES: Mapping[str, str] = {
    "init_seconds": "Until the model loads",
    "weights_seconds": "Loading weights",
    # The MTP head's weights too.
    "drafter_seconds": "Loading the drafter",
    # The drafter's too.
    "compile_seconds": "torch.compile",
    # FlashInfer's autotuner.
    "autotune_seconds": "Trying kernels",
    "graphs_seconds": "Capturing CUDA graphs",
    "ready_seconds": "Start to first answer",
}

# Log lines of vLLM 0.17 to 0.33, and of FlashInfer, which have a time.
_SECONDS = r"([0-9]{1,7}(?:\.[0-9]+)?)"
_WEIGHTS = re.compile(rf"Loading weights took {_SECONDS} seconds")
_COMPILED = re.compile(rf"torch\.compile (?:takes|took) {_SECONDS} s in total")
_COMPILES = re.compile(r"Compiling a graph for")
_GRAPHS = re.compile(rf"Graph capturing finished in {_SECONDS} secs")
_TUNING = re.compile(
    r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) .*\[Autotuner\]:? Autotuning process (starts|ends)"
)
# Our supervisor's first and last words of a start, and vLLM's of the model.
_BEGUN, _SERVES = re.compile(r"^starting the engine$"), re.compile(r"^serving$")
# The second, of vLLM's V2 model runner.
_LOADS = re.compile(r"Starting to load model|Loading model from scratch")

# All of them in one pattern, by which the benchmark on the Spark selects lines of the journal.
_ALL = (_BEGUN, _LOADS, _WEIGHTS, _COMPILED, _COMPILES, _GRAPHS, _TUNING, _SERVES)
KEPT = "|".join(each.pattern for each in _ALL)


def timings(lines: Iterable[str]) -> dict[str, float]:
    """Return metric -> seconds of the phases that the lines contain."""
    found: dict[str, float] = {}
    tuning = None
    for line in lines:
        # The model's weights come before those of the drafter.
        weights = "drafter_seconds" if "weights_seconds" in found else "weights_seconds"
        for metric, pattern in (
            (weights, _WEIGHTS),
            ("compile_seconds", _COMPILED),
            ("graphs_seconds", _GRAPHS),
        ):
            if match := pattern.search(line):
                found[metric] = found.get(metric, 0.0) + float(match[1])
        if match := _TUNING.search(line):
            try:
                at = datetime.strptime(match[1], "%Y-%m-%d %H:%M:%S,%f")
            except ValueError:
                # The log of an engine is untrusted: this is no time.
                continue
            if match[2] == "starts":
                tuning = at
            elif tuning:
                spent = (at - tuning).total_seconds()
                found["autotune_seconds"] = found.get("autotune_seconds", 0.0) + spent
    return found


def start_figures(kept: Sequence[Sequence[Any]]) -> dict[str, dict[str, float]]:
    """Return the figures of a start as those of a workload; it is cold or with warm caches."""
    lines = [str(line) for _, line in kept]
    found = timings(lines)
    begun = _time_of(kept, _BEGUN)
    for metric, pattern in (("init_seconds", _LOADS), ("ready_seconds", _SERVES)):
        ended = _time_of(kept, pattern)
        if begun is not None and ended is not None:
            found[metric] = ended - begun
    if not found:
        return {}
    compiled = any(_COMPILES.search(line) for line in lines)
    return {COLD_START if compiled else WARM_START: found}


def start_line(lines: Sequence[str], expected: Mapping[str, Mapping[str, float]]) -> str:
    """Return the summary of a start, such as "weights 501 s (557), compile 43 s (10)"."""
    found = start_figures([(0, line) for line in lines])
    parts = []
    for name, phases in found.items():
        for metric, seconds in phases.items():
            if metric in ("init_seconds", "ready_seconds"):
                continue
            wanted = expected.get(name, {}).get(metric)
            beside = "" if wanted is None else f" ({wanted:.0f})"
            parts.append(f"{metric.removesuffix('_seconds')} {seconds:.0f} s{beside}")
    return ", ".join(parts)


def _time_of(kept: Sequence[Sequence[Any]], pattern: re.Pattern[str]) -> float | None:
    return next((float(at) for at, line in kept if pattern.search(str(line))), None)
