"""A start of an engine: its seconds in all and by phase, as its Spark has kept them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from sparkwright.common.part import Bounded

COLD_START, WARM_START = "start-cold", "start-warm"

# Metric, in seconds -> its label, in the order of a start: files/host/engine/startup.py finds them.
PHASES: Mapping[str, str] = {
    "init_seconds": "Until the model loads",
    "weights_seconds": "Loading weights",
    # The MTP head's weights too.
    "drafter_seconds": "Loading the drafter",
    # The drafter's too.
    "compile_seconds": "torch.compile",
    # Triton compiles its kernels in it.
    "warmup_seconds": "First run",
    # FlashInfer's autotuner.
    "autotune_seconds": "Trying kernels",
    "graphs_seconds": "Capturing CUDA graphs",
    "server_seconds": "Preparing the server",
    "token_seconds": "First token",
    "ready_seconds": "Start to first answer",
}
# A phase is slow that takes so many times the median of so many starts, and so many seconds more,
# as an owner notices: the same weights took 16.5 to 26.8 s from one machine's page cache
# (docs/performance.md).
_SLOW, _ENOUGH, _SECONDS = 2, 3, 10
_REST = "other_seconds"


class Start(Bounded, extra="ignore"):
    """A start of an engine: files/host/common/starts.py."""

    at: float
    release: str
    kind: str
    seconds: float
    phases: dict[str, float]
    failed: str

    def __str__(self) -> str:
        return f"{self.seconds:.0f} s ({self.failed or self.kind})"

    @property
    def metrics(self) -> dict[str, float]:
        """The seconds of its phases, by metric."""
        found = {f"{phase}_seconds": seconds for phase, seconds in self.phases.items()}
        return {name: found[name] for name in PHASES if name in found}

    @property
    def figures(self) -> dict[str, dict[str, float]]:
        """Its figures as those of a workload; of one with a head start recipes expect none."""
        if (name := f"start-{self.kind}") not in (COLD_START, WARM_START):
            return {}
        return {name: {**self.metrics, "ready_seconds": self.seconds}}

    def line(self, expected: Mapping[str, Mapping[str, float]]) -> str:
        """Return its parts beside the recipe's, as in "600 s (cold): weights 501 s (557)"."""
        wanted = expected.get(f"start-{self.kind}", {})
        parts = [
            f"{metric.removesuffix('_seconds')} {seconds:.0f} s"
            + (f" ({wanted[metric]:.0f})" if metric in wanted else "")
            for metric, seconds in self.metrics.items()
        ]
        return f"{self}: {', '.join(parts)}" if parts else f"{self}"


def last_starts(starts: Sequence[Start]) -> str:
    """Return what the last three starts took, the newest first; "" where none is known."""
    return f"starts: {', '.join(map(str, starts[:-4:-1]))}" if starts else ""


def slow_phases(starts: Sequence[Start]) -> Iterator[str]:
    """Yield the phases of the last start, if it served, that took longer than is usual for those
    of its kind before; what no phase explains counts as one.
    """
    like = [
        {**each.metrics, _REST: each.seconds - sum(each.metrics.values())}
        for each in starts
        if not each.failed and each.kind == starts[-1].kind
    ]
    before = like[:-1]
    if len(before) < _ENOUGH or starts[-1].failed:
        return
    for metric, took in like[-1].items():
        usual = median(each.get(metric, 0.0) for each in before)
        if took > _SLOW * usual and took - usual > _SECONDS:
            label = PHASES.get(metric, "What no phase explains")
            those = f"the median of {len(before)} {starts[-1].kind} starts"
            yield f"{label}: {took:.0f} s; {those} is {usual:.0f} s"
