"""The verdict on a Spark: measured figures beside the expected ones of its recipe."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkwright.common.startup import COLD_START, PHASES, WARM_START
from sparkwright.declared.recipe.workloads import WORKLOADS

# Workload -> metric -> figure.
Figures = Mapping[str, Mapping[str, float]]

WITHIN, BELOW, ABOVE, MISSING = "within", "below", "above", "not measured"
NOTHING = "no figures to compare"

# Only these metrics decide the overall verdict, if a workload has trials enough. The others vary
# too much: a first token with the exact length of the prompt, a slowest of ten with one prompt, an
# acceptance with the words, a start with disk and caches.
DECIDING = ("tok_s", "total_tok_s", "errors")

# The distance that a figure may have from the expected one and still be within: a share of that
# one, and at least so much in the metric's own unit. docs/benchmark.md says why.
_SPEED, _DRAFTED = (0.15, 0.0), (0.25, 0.0)
_TOLERANCES: Mapping[str, tuple[float, float]] = {
    "tok_s": _SPEED,
    "total_tok_s": _SPEED,
    **dict.fromkeys(("tok_s_p95", "tok_s_min", "tok_s_max"), (0.35, 0)),
    **dict.fromkeys(("ttft_ms", "ttft_cold_ms"), (0.30, 50)),
    "ttft_ms_p95": (0.50, 100),
    "prefill_tok_s": (0.40, 0),
    **dict.fromkeys(("acceptance", "acceptance_first"), (0, 0.10)),
    "accepted_length": (0.25, 0),
    "errors": (0, 0),
    **dict.fromkeys(PHASES, (0.5, 10)),
}


@dataclass(frozen=True)
class Verdict:
    """One measured figure beside the expected one, and its standing: `BELOW` is always worse."""

    workload: str
    metric: str
    expected: float
    measured: float | None
    standing: str

    @property
    def decides(self) -> bool:
        """Tell whether the overall verdict depends on it."""
        few_trials = self.workload in WORKLOADS and not WORKLOADS[self.workload].decides
        return self.metric in DECIDING and (self.metric == "errors" or not few_trials)

    @property
    def word(self) -> str:
        """The standing for people: a time is slower or faster, not below or above."""
        times = {BELOW: "slower", ABOVE: "faster"}
        return times.get(self.standing, self.standing) if _is_time(self.metric) else self.standing


def verdicts(measured: Figures, expected: Figures) -> list[Verdict]:
    """Return a verdict on every expected figure, in the order of the recipe.

    Errors of a workload with expected figures are judged even if the recipe does not name them.
    """
    results = []
    for workload, figures in expected.items():
        if workload in (COLD_START, WARM_START) and workload not in measured:
            # A start is either cold or warm.
            continue
        own = measured.get(workload, {})
        implied = {"errors": 0.0} if own.get("errors") else {}
        for metric, figure in {**implied, **figures}.items():
            standing = _standing(metric, figure, own)
            results.append(Verdict(workload, metric, figure, own.get(metric), standing))
    return results


def overall(verdicts: Sequence[Verdict]) -> str:
    """Return within, below, above, or that there is nothing to compare.

    One deciding figure below is enough for below; above needs every speed to be above.
    """
    deciding = [each for each in verdicts if each.decides and each.standing != MISSING]
    if any(each.standing == BELOW for each in deciding):
        return BELOW
    speeds = [each for each in deciding if each.metric != "errors"]
    if not speeds:
        return NOTHING
    return ABOVE if all(each.standing == ABOVE for each in speeds) else WITHIN


def _is_time(metric: str) -> bool:
    return metric.startswith("ttft") or metric in PHASES


def _standing(metric: str, expected: float, own: Mapping[str, float]) -> str:
    if (measured := own.get(metric)) is None:
        return MISSING
    share, least = _TOLERANCES[metric]
    if (share, least) == _SPEED and "acceptance" in own:
        share, least = _DRAFTED
    # The rounding error of a product must not decide at the very edge.
    if abs(measured - expected) <= max(share * expected, least) + 1e-9:
        return WITHIN
    less_is_better = _is_time(metric) or metric == "errors"
    return ABOVE if (measured < expected) == less_is_better else BELOW
