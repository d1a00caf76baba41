"""The known causes of a Spark's slowness, held against what was recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from deploys.plan.case import Case
from deploys.plan.figures import COLD, Result
from deploys.plan.verdict import Verdict

# The power-delivery fault holds a GB10 at 500 to 850 MHz and about 30 W under load (field reports).
_FAULT_MHZ, _FAULT_WATTS = 900, 40
# Our own choice, nobody published one: warm, and a clock that fell by a fifth while it worked.
_WARM, _FALLEN = 80, 0.8
# The SM121 guide: 13.3 tok/s where it should be 48.6, so 0.27 of it, with kernels for other GPUs.
_STOCK = (0.18, 0.40)
# The SM121 guide's milder power fault left 36.6 of 52.9 tok/s, 0.69; a quarter less is beyond what
# prompts and images make.
_MILD = 0.75
# A working prefix cache takes nearly all of a repeated prompt (docai.hu).
_HITS = 0.5
# Fewer samples than this, or shorter, say nothing of load.
_SAMPLES = 5


@dataclass(frozen=True)
class Cause:
    """A likely cause, and the readings that point to it."""

    name: str
    cause: str
    evidence: str
    remedy: str
    source: str


def _power_fault(case: Case) -> str | None:
    clocks, watts = case.loaded(1), case.loaded(2)
    spark = case.result["hardware"].startswith("gb10")
    if not spark or len(clocks) < _SAMPLES or median(clocks) > _FAULT_MHZ:
        return None
    if watts and median(watts) > _FAULT_WATTS:
        return None
    power = f" and {median(watts):.0f} W" if watts else ""
    return f"{median(clocks):.0f} MHz{power} under load, the median of {len(clocks)} readings"


def _thermal(case: Case) -> str | None:
    clocks, heat = case.loaded(1), case.loaded(3)
    if case.result["hardware"] == "lab" or min(len(clocks), len(heat)) < 4 * _SAMPLES:
        return None
    quarter = len(clocks) // 4
    first, last = median(clocks[:quarter]), median(clocks[-quarter:])
    if max(heat) < _WARM or last > _FALLEN * first:
        return None
    return f"up to {max(heat):.0f} °C, and a clock that fell from {first:.0f} to {last:.0f} MHz"


def _others(case: Case) -> str | None:
    before = case.result["before"]
    busy = before["running"] + before["waiting"]
    if not busy:
        return None
    return f"{before['running']} running and {before['waiting']} waiting before it began"


def _socket(case: Case) -> str | None:
    if case.result["sparks"] < 2 or case.log("network") != "NET/Socket":
        return None
    return "NCCL's log says NET/Socket, not NET/IB"


def _thinking(case: Case) -> str | None:
    return "answers of this benchmark held reasoning" if case.log("thinking") else None


def _errors(case: Case) -> str | None:
    said = [error for run in case.runs for error in run["errors"]]
    return f"{len(said)} requests failed, the first: {said[0][:200]}" if said else None


def _preemptions(case: Case) -> str | None:
    count = case.total("preemptions")
    return f"{count} preemptions" if count and case.slow else None


def _drafts(case: Case) -> str | None:
    low = case.below("acceptance")
    if low:
        return "; ".join(f"{v.workload}: {v.measured:.0%}, not {v.expected:.0%}" for v in low)
    drafted, accepted = case.total("drafted"), case.total("accepted")
    if case.slow and drafted and accepted < 0.1 * drafted:
        return f"{accepted} of {drafted} drafted tokens were accepted"
    return None


def _stock(case: Case) -> str | None:
    shares = [v.measured / v.expected for v in case.below("tok_s") if v.measured and v.expected]
    fits = bool(shares) and all(_STOCK[0] <= share <= _STOCK[1] for share in shares)
    if not fits or _power_fault(case):
        return None
    return f"{min(shares):.0%} to {max(shares):.0%} of the expected tok/s"


def _mild_fault(case: Case) -> str | None:
    speeds = [v for v in case.verdicts if v.metric == "tok_s"]
    shares = [v.measured / v.expected for v in speeds if v.measured and v.expected]
    clocks, spark = case.loaded(1), case.result["hardware"].startswith("gb10")
    if not (spark and case.slow and shares) or median(shares) > _MILD or len(clocks) < _SAMPLES:
        return None
    return f"{median(shares):.0%} of the expected tok/s at {median(clocks):.0f} MHz"


def _cold(case: Case) -> str | None:
    warm = [
        run
        for workload in case.result["workloads"]
        if any(run["label"] == COLD for run in workload["runs"])
        for run in workload["runs"]
        if run["label"] != COLD
    ]
    asked, hit = (sum(run[key] for run in warm) for key in ("queried_tokens", "cached_tokens"))
    if not asked or hit >= _HITS * asked or not case.below("ttft_ms"):
        return None
    return f"{hit:,} of {asked:,} tokens of repeated prompts came from the prefix cache"


@dataclass(frozen=True)
class Known:
    """A known cause: what it is, and what of a case shows it (None where nothing does)."""

    name: str
    cause: str
    remedy: str
    source: str
    evidence: Callable[[Case], str | None]


# The most likely and most certain first.
_KNOWN = (
    Known(
        "power-fault",
        "The GPU is held back under load: the supply was not negotiated at power-up",
        "Shut the Spark down, unplug the supply from the wall and from the unit for a minute",
        "the SM121 guide; parallelArchitect/spark-gpu-throttle-check; ai-muninn.com",
        _power_fault,
    ),
    Known(
        "thermal-slowdown",
        "The GPU became warm and slowed down",
        "Give the Spark air on all sides, look for dust, and measure again when it is cool",
        "our inference; the limits are our own",
        _thermal,
    ),
    Known(
        "others-at-work",
        "Somebody else's requests were served at the same time",
        "Measure again when nobody asks",
        "vLLM's own counters",
        _others,
    ),
    Known(
        "request-errors",
        "Requests failed, so that the figures are of the rest",
        "`pyinfra inventory.py deploys/doctor.py`, and `journalctl -u 'vllm@*'`",
        "the benchmark's own record",
        _errors,
    ),
    Known(
        "tcp",
        "The two Sparks talk by TCP and not by RDMA",
        "`pyinfra inventory.py deploys.steps.fabric.apply`, and `pytest tests/verify`",
        "NVIDIA/dgx-spark-playbooks; NCCL's log",
        _socket,
    ),
    Known(
        "thinking",
        "The model thinks before it answers; the expected figures are without that",
        'Ask with chat_template_kwargs {"enable_thinking": false}, which the recipe\'s '
        "default-chat-template-kwargs can hold",
        "AEON-7 and docai.hu",
        _thinking,
    ),
    Known(
        "stock-kernels",
        "The image has no kernels for this GPU: about a quarter of the speed",
        "Take an image with kernels for SM 12.1 (since vLLM 0.28), or let the Spark build one",
        "the SM121 guide: 13.3 against 48.6 tok/s",
        _stock,
    ),
    Known(
        "drafts-rejected",
        "The model takes few of the tokens that are drafted for it",
        "Compare the drafter's commit with the recipe's source; measure at temperature 0",
        "AEON-7 and docai.hu",
        _drafts,
    ),
    Known(
        "cold-cache",
        "Repeated prompts were read anew: the prefix cache was not hit",
        "`enable-prefix-caching: true` in the recipe's args; see that the prompt's start is fixed",
        "docai.hu: 18.11 s cold, 3.87 s warm",
        _cold,
    ),
    Known(
        "kv-cache-full",
        "The KV cache was full, and requests were begun again",
        "Lower max-num-seqs or max-model-len, or raise gpu-memory-utilization where memory is left",
        "vLLM's counter num_preemptions",
        _preemptions,
    ),
)


# Where none of those shows: a suspicion, and no more.
_ELSE = Known(
    "power-fault-suspected",
    "Nothing that was recorded explains it: in a milder form, the power fault leaves the clock as "
    "it should be",
    "Shut the Spark down, unplug the supply from the wall and from the unit for a minute, and "
    "measure again; if that changes nothing, compare image and settings with the recipe's source",
    "the SM121 guide: 36.6 in the place of 52.9 tok/s, until its supply was unplugged",
    _mild_fault,
)


def causes(result: Result, found: Sequence[Verdict]) -> list[Cause]:
    """Return the likely causes of what is below, most likely first; none known: an empty list.

    A fault of its own (a GPU held back, errors, others at work) is told whatever the verdict.

    Args:
        result: what the benchmark wrote, as parsed JSON.
        found: the verdicts on its figures.
    """
    case = Case(result, found)
    return _shown(case, _KNOWN) or _shown(case, [_ELSE])


def _shown(case: Case, known: Sequence[Known]) -> list[Cause]:
    return [
        Cause(each.name, each.cause, evidence, each.remedy, each.source)
        for each in known
        if (evidence := each.evidence(case)) is not None
    ]
