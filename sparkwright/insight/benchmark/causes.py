"""The known causes of a Spark's slowness, by what a benchmark recorded."""

from collections.abc import Sequence
from statistics import median

from sparkwright.insight.benchmark.measured import Answer
from sparkwright.insight.benchmark.verdict import ABOVE, BELOW, WITHIN, Verdict, overall
from sparkwright.insight.doctor.gpu import has_power_fault
from sparkwright.plan.causes.log_causes import Diagnosis, table
from sparkwright.plan.causes.log_causes import causes as doctors_causes
from sparkwright.plan.causes.thresholds import FALLEN, WARM

# The SM121 guide: 13.3 tok/s where it should be 48.6, so 0.27 of it, with kernels for other GPUs.
_STOCK = (0.18, 0.40)
# The SM121 guide's milder power fault left 36.6 of 52.9 tok/s, 0.69; prompts and images do not
# cost a quarter of the speed.
_MILD = 0.75
# Workloads of which fewer show no trend.
_TREND = 8


Verdicts = Sequence[Verdict]


def _gpu(answer: Answer, column: int) -> list[float]:
    """Return the GPU's readings, a median of each workload: 0 = MHz, 1 = W, 2 = °C."""
    return [value for each in answer.workloads if (value := each.gpu[column]) is not None]


def _shares(verdicts: Verdicts, *standings: str) -> list[float]:
    """Return the shares of the expected tok/s that were measured, of verdicts with a standing."""
    speeds = (v for v in verdicts if v.metric == "tok_s" and v.standing in standings)
    return [v.measured / v.expected for v in speeds if v.measured]


def causes(answer: Answer, verdicts: Verdicts, hardware: str) -> list[Diagnosis]:
    """Return the likely causes of figures below the expected ones, most likely first.

    Faults that need no verdict (a GPU held back, errors, other clients) are always reported.
    """
    known = {**doctors_causes(), **{each.name: each for each in table("speed")}}
    seen = _signs(answer, verdicts, hardware)
    found = [known[name].diagnosis(evidence) for name, evidence in seen.items() if evidence]
    if not found and (evidence := _mild_fault(answer, verdicts, hardware)):
        return [known["power-fault-suspected"].diagnosis(evidence)]
    return found


def _signs(answer: Answer, verdicts: Verdicts, hardware: str) -> dict[str, str | None]:
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
    if not hardware.startswith("gb10") or not clocks:
        return None
    if not has_power_fault(median(clocks), median(watts) if watts else None):
        return None
    power = f" and {median(watts):.0f} W" if watts else ""
    return f"{median(clocks):.0f} MHz{power} under load, the median of {len(clocks)} workloads"


def _thermal(answer: Answer, hardware: str) -> str | None:
    clocks, heat = _gpu(answer, 0), _gpu(answer, 2)
    if hardware == "lab" or min(len(clocks), len(heat)) < _TREND:
        return None
    quarter = len(clocks) // 4
    first, last = median(clocks[:quarter]), median(clocks[-quarter:])
    if max(heat) < WARM or last > FALLEN * first:
        return None
    return f"up to {max(heat):.0f} °C, and a clock that fell from {first:.0f} to {last:.0f} MHz"


def _drafts(answer: Answer, verdicts: Verdicts) -> str | None:
    low = [v for v in verdicts if v.metric == "acceptance" and v.standing == BELOW]
    if low:
        return "; ".join(f"{v.workload}: {v.measured:.0%}, not {v.expected:.0%}" for v in low)
    found = [
        each.figures["acceptance"] for each in answer.workloads if "acceptance" in each.figures
    ]
    if overall(verdicts) == BELOW and found and median(found) < 0.1:
        return f"{median(found):.0%} of the drafted tokens were accepted"
    return None


def _mild_fault(answer: Answer, verdicts: Verdicts, hardware: str) -> str | None:
    shares, clocks = _shares(verdicts, BELOW, WITHIN, ABOVE), _gpu(answer, 0)
    spark = hardware.startswith("gb10") and overall(verdicts) == BELOW
    if not (spark and shares and clocks) or median(shares) > _MILD:
        return None
    return f"{median(shares):.0%} of the expected tok/s at {median(clocks):.0f} MHz"
