"""What a start of an engine took, in all and by its phases, as its Spark has kept it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Annotated

from pydantic import AfterValidator

from sparkwright.common.part import Bounded

COLD_START, WARM_START = "start-cold", "start-warm"

# Phase -> its label, in the order of a start: files/host/engine/startup.py finds them in the log.
_PHASES: Mapping[str, str] = {
    "init": "Until the model loads",
    "weights": "Loading weights",
    # The MTP head's weights too.
    "drafter": "Loading the drafter",
    # The drafter's too.
    "compile": "torch.compile",
    # Triton compiles kernels in it.
    "warmup": "First run",
    # FlashInfer's autotuner.
    "autotune": "Trying kernels",
    "graphs": "Capturing CUDA graphs",
    "server": "Preparing the server",
    "token": "First token",
}
# Metric, in seconds -> its label.
PHASES: Mapping[str, str] = {
    **{f"{name}_seconds": label for name, label in _PHASES.items()},
    "ready_seconds": "Start to first answer",
}
# A phase is slow that takes this many times the median of starts of its kind, and so many seconds
# more, of which an owner takes no notice: the same weights took 16.5 to 26.8 s from the page cache
# of one machine (docs/performance.md). So many starts show what is usual.
_SLOW, _SECONDS, _ENOUGH = 2, 10, 3


def _known(phases: dict[str, float]) -> dict[str, float]:
    return {name: phases[name] for name in _PHASES if name in phases}


class Start(Bounded, extra="ignore"):
    """A start of an engine: files/host/common/starts.py."""

    at: float
    release: str
    kind: str
    seconds: float
    phases: Annotated[dict[str, float], AfterValidator(_known)]
    failed: str

    def __str__(self) -> str:
        return f"{self.seconds:.0f} s ({self.failed or self.kind})"

    @property
    def figures(self) -> dict[str, dict[str, float]]:
        """Its figures as those of a workload, where recipes expect some of its kind."""
        if (name := f"start-{self.kind}") not in (COLD_START, WARM_START):
            return {}
        found = {f"{phase}_seconds": seconds for phase, seconds in self.phases.items()}
        return {name: {**found, "ready_seconds": self.seconds}}

    def line(self, expected: Mapping[str, Mapping[str, float]]) -> str:
        """Return its parts beside the recipe's, as in "600 s (cold): weights 501 s (557)"."""
        wanted = expected.get(f"start-{self.kind}", {})
        parts = [
            f"{phase} {seconds:.0f} s"
            + (f" ({wanted[metric]:.0f})" if (metric := f"{phase}_seconds") in wanted else "")
            for phase, seconds in self.phases.items()
        ]
        return f"{self}: {', '.join(parts)}" if parts else f"{self}"


def slow_phases(starts: Sequence[Start]) -> Iterator[str]:
    """Yield the phases of the last start, if it served, that took longer than is usual for those
    of its kind before; what no phase explains counts as one.
    """
    if not starts or starts[-1].failed:
        return
    last = starts[-1]
    before = [each for each in starts[:-1] if not each.failed and each.kind == last.kind]
    if len(before) < _ENOUGH:
        return
    for phase in (*_PHASES, "other"):
        usual = median(_seconds(each, phase) for each in before)
        took = _seconds(last, phase)
        if took > _SLOW * usual and took - usual > _SECONDS:
            label = _PHASES.get(phase, "What no phase explains")
            what = f"{took:.0f} s; the median of {len(before)} {last.kind} starts is {usual:.0f} s"
            yield f"{label}: {what}"


def _seconds(start: Start, phase: str) -> float:
    rest = start.seconds - sum(start.phases.values())
    return rest if phase == "other" else start.phases.get(phase, 0.0)
