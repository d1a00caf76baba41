"""The verdict on a Spark: its figures beside the expected ones, why they are low, the report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from sparkwright.common.startup import COLD_START, PHASES, WARM_START
from sparkwright.declared.recipe.workloads import METRICS, WORKLOADS
from sparkwright.insight.benchmark.measured import Answer
from sparkwright.insight.doctor.checkup import has_power_fault
from sparkwright.plan.causes import log_causes
from sparkwright.plan.causes.log_causes import Diagnosis
from sparkwright.plan.causes.thresholds import FALLEN, WARM

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
# The SM121 guide: 13.3 tok/s where it should be 48.6, so 0.27 of it, with kernels for other GPUs.
_STOCK = (0.18, 0.40)
# The SM121 guide's milder power fault left 36.6 of 52.9 tok/s, 0.69; prompts and images do not
# cost a quarter of the speed.
_MILD = 0.75
# Workloads of which fewer show no trend.
_TREND = 8
_HEADINGS = ("workload", "figure", "measured", "expected", "verdict")


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


def _gpu(answer: Answer, column: int) -> list[float]:
    """Return the GPU's readings, a median of each workload: 0 = MHz, 1 = W, 2 = °C."""
    return [value for each in answer.workloads if (value := each.gpu[column]) is not None]


def _shares(verdicts: Sequence[Verdict], *standings: str) -> list[float]:
    """Return the shares of the expected tok/s that were measured, of verdicts with a standing."""
    speeds = (v for v in verdicts if v.metric == "tok_s" and v.standing in standings)
    return [v.measured / v.expected for v in speeds if v.measured]


def causes(answer: Answer, verdicts: Sequence[Verdict], hardware: str) -> list[Diagnosis]:
    """Return the likely causes of figures below the expected ones, most likely first.

    Faults that need no verdict (a GPU held back, errors, other clients) are always reported.
    """
    known = {**log_causes.causes(), **{each.name: each for each in log_causes.table("speed")}}
    seen = _signs(answer, verdicts, hardware)
    found = [known[name].diagnosis(evidence) for name, evidence in seen.items() if evidence]
    if not found and (evidence := _mild_fault(answer, verdicts, hardware)):
        return [known["power-fault-suspected"].diagnosis(evidence)]
    return found


def _signs(answer: Answer, verdicts: Sequence[Verdict], hardware: str) -> dict[str, str | None]:
    """Return name of a cause -> what shows it; the most likely and most certain first."""
    workloads, slow = answer.workloads, overall(verdicts) == BELOW
    errors = [error for each in workloads for error in each.errors]
    failed = f"{len(errors)} requests failed, the first: {errors[0][:200]}" if errors else None
    others = f"{answer.others} running or waiting before it began" if answer.others else None
    preemptions = sum(each.preemptions for each in workloads)
    held_back = _power_fault(answer, hardware)
    shares = _shares(verdicts, BELOW)
    stock = bool(shares) and all(_STOCK[0] <= share <= _STOCK[1] for share in shares)
    share = f"{min(shares):.0%} to {max(shares):.0%} of the expected tok/s" if stock else None
    return {
        "power-fault": held_back,
        "thermal-slowdown": _thermal(answer, hardware),
        "others-at-work": others,
        "request-errors": failed,
        "stock-kernels": None if held_back else share,
        "drafts-rejected": _drafts(answer, verdicts),
        "kv-cache-full": f"{preemptions} preemptions" if preemptions and slow else None,
    }


def _power_fault(answer: Answer, hardware: str) -> str | None:
    clocks, watts = _gpu(answer, 0), _gpu(answer, 1)
    clock, power = (median(each) if each else None for each in (clocks, watts))
    if clock is None or not hardware.startswith("gb10") or not has_power_fault(clock, power):
        return None
    drawn = "" if power is None else f" and {power:.0f} W"
    return f"{clock:.0f} MHz{drawn} under load, the median of {len(clocks)} workloads"


def _thermal(answer: Answer, hardware: str) -> str | None:
    clocks, heat = _gpu(answer, 0), _gpu(answer, 2)
    if hardware == "lab" or min(len(clocks), len(heat)) < _TREND:
        return None
    quarter = len(clocks) // 4
    first, last = median(clocks[:quarter]), median(clocks[-quarter:])
    if max(heat) < WARM or last > FALLEN * first:
        return None
    return f"up to {max(heat):.0f} °C, and a clock that fell from {first:.0f} to {last:.0f} MHz"


def _drafts(answer: Answer, verdicts: Sequence[Verdict]) -> str | None:
    low = [v for v in verdicts if v.metric == "acceptance" and v.standing == BELOW]
    if low:
        return "; ".join(f"{v.workload}: {v.measured:.0%}, not {v.expected:.0%}" for v in low)
    figures = (each.figures for each in answer.workloads)
    found = [each["acceptance"] for each in figures if "acceptance" in each]
    if overall(verdicts) == BELOW and found and median(found) < 0.1:
        return f"{median(found):.0%} of the drafted tokens were accepted"
    return None


def _mild_fault(answer: Answer, verdicts: Sequence[Verdict], hardware: str) -> str | None:
    shares, clocks = _shares(verdicts, BELOW, WITHIN, ABOVE), _gpu(answer, 0)
    spark = hardware.startswith("gb10") and overall(verdicts) == BELOW
    if not (spark and shares and clocks) or median(shares) > _MILD:
        return None
    return f"{median(shares):.0%} of the expected tok/s at {median(clocks):.0f} MHz"


def number(value: float | None) -> str:
    """Return a figure for people: with at most two decimals, and commas between thousands."""
    if value is None:
        return "-"
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def report(
    answer: Answer, about: str, hardware: str, expected: Figures
) -> tuple[list[str], list[str]]:
    """Return the lines for the terminal, and those of the page, which has every figure."""
    judged = verdicts(answer.figures, expected)
    conclusion = [*_conclusion(answer, judged, hardware)]
    rows = [*_rows(answer.figures, judged)]
    shown = [cells for is_shown, *cells in rows if is_shown]
    table = [
        f"{name:<16}{figure:<28}{own:>9}{wanted:>9}  {word}".rstrip()
        for name, figure, own, wanted, word in [_HEADINGS, *shown]
    ]
    minutes = f"{(answer.ended - answer.started) / 60:.0f} minutes"
    page = [f"# {about}, measured in {minutes}", "", *(f"* {_escaped(x)}" for x in conclusion), ""]
    lines = [_HEADINGS, ("---",) * len(_HEADINGS), *(cells for _, *cells in rows)]
    page += [f"| {' | '.join(map(_escaped, cells))} |" for cells in lines]
    return [*table, *conclusion], page


def _conclusion(answer: Answer, judged: Sequence[Verdict], hardware: str) -> Iterator[str]:
    verdict, likely = overall(judged), causes(answer, judged, hardware)
    yield f"verdict: {verdict}"
    for each in likely:
        yield f"likely cause: {each.cause} (seen: {each.evidence}). Remedy: {each.remedy}."
    if verdict == BELOW and not likely:
        yield "no known cause fits what was recorded"
    if hardware == "lab":
        yield "the lab's GPU readings are simulated, and a processor computes"
    for workload in answer.workloads:
        if workload.skipped:
            yield f"{workload.name} was not measured: it {workload.skipped}"


def _rows(figures: Figures, judged: Sequence[Verdict]) -> Iterator[tuple[bool, *tuple[str, ...]]]:
    """Yield whether the terminal shows a figure, and its cells: judged ones, and all speeds."""
    by_key = {(each.workload, each.metric): each for each in judged}
    for workload in dict.fromkeys([*figures, *(each.workload for each in judged)]):
        for metric, (label, unit) in METRICS.items():
            verdict, value = by_key.get((workload, metric)), figures.get(workload, {}).get(metric)
            if verdict is None and value is None:
                continue
            pair = (value, verdict.expected if verdict else None)
            scale = 100 if unit == "%" else 1
            own, wanted = (number(None if each is None else each * scale) for each in pair)
            is_shown = verdict.standing != MISSING if verdict else metric == "tok_s"
            name, word = f"{label}, {unit}".rstrip(", "), verdict.word if verdict else ""
            yield is_shown, workload, name, own, wanted, word


def _escaped(text: str) -> str:
    """Return text that is no markup, whatever a Spark has written."""
    return "".join(f"\\{each}" if each in "\\`*_[]<>|#!&" else each for each in text)
