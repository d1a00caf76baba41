"""The known causes of a Spark's slowness, by what a benchmark recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from sparkwright.benchmark.figures import COLD, Result
from sparkwright.benchmark.verdict import BELOW, Verdict, overall
from sparkwright.causes.cause import UNPLUG_REMEDY, Diagnosis, ReadingCause, from_reading
from sparkwright.causes.log_causes import causes as known_causes
from sparkwright.causes.thresholds import FALLEN, WARM
from sparkwright.common.command_line import next_line
from sparkwright.doctor.gpu import has_power_fault

# The SM121 guide: 13.3 tok/s where it should be 48.6, so 0.27 of it, with kernels for other GPUs.
_STOCK = (0.18, 0.40)
# The SM121 guide's milder power fault left 36.6 of 52.9 tok/s, 0.69; prompts and images do not
# cost a quarter of the speed.
_MILD = 0.75
# A working prefix cache holds nearly all of a repeated prompt (docai.hu).
_HITS = 0.5
# Fewer readings under load than this prove nothing.
_SAMPLES = 5


@dataclass(frozen=True)
class SlownessEvidence:
    """A benchmark's result and the verdicts on it, which show a cause of slowness."""

    result: Result
    verdicts: Sequence[Verdict]

    @property
    def runs(self) -> list[Result]:
        """All runs of all workloads."""
        return [run for workload in self.result["workloads"] for run in workload["runs"]]

    @property
    def slow(self) -> bool:
        """Tell whether a deciding figure is below."""
        return overall(self.verdicts) == BELOW

    def below(self, *metrics: str) -> list[Verdict]:
        """Return the verdicts on these metrics that are below."""
        return [v for v in self.verdicts if v.metric in metrics and v.standing == BELOW]

    def total(self, key: str) -> int:
        """Return the sum of a counter over all runs."""
        return sum(run[key] for run in self.runs)

    def log(self, key: str) -> Any:
        """Return a value from the engine's log; None without."""
        return (self.result.get("log") or {}).get(key)

    def loaded(self, column: int) -> list[float]:
        """Return the GPU's readings while requests ran.

        Args:
            column: 1 = clock in MHz, 2 = power in W, 3 = temperature in degrees Celsius.
        """
        return [
            sample[column]
            for sample in self.result["gpu"]
            if sample[column] is not None
            and any(run["started"] <= sample[0] <= run["ended"] for run in self.runs)
        ]


def _power_fault(record: SlownessEvidence) -> str | None:
    clocks, watts = record.loaded(1), record.loaded(2)
    spark = record.result["hardware"].startswith("gb10")
    if not spark or len(clocks) < _SAMPLES:
        return None
    if not has_power_fault(median(clocks), median(watts) if watts else None):
        return None
    power = f" and {median(watts):.0f} W" if watts else ""
    return f"{median(clocks):.0f} MHz{power} under load, the median of {len(clocks)} readings"


def _thermal(record: SlownessEvidence) -> str | None:
    clocks, heat = record.loaded(1), record.loaded(3)
    if record.result["hardware"] == "lab" or min(len(clocks), len(heat)) < 4 * _SAMPLES:
        return None
    quarter = len(clocks) // 4
    first, last = median(clocks[:quarter]), median(clocks[-quarter:])
    if max(heat) < WARM or last > FALLEN * first:
        return None
    return f"up to {max(heat):.0f} °C, and a clock that fell from {first:.0f} to {last:.0f} MHz"


def _others(record: SlownessEvidence) -> str | None:
    before = record.result["before"]
    busy = before["running"] + before["waiting"]
    if not busy:
        return None
    return f"{before['running']} running and {before['waiting']} waiting before it began"


def _socket(record: SlownessEvidence) -> str | None:
    if record.result["sparks"] < 2 or record.log("network") != "NET/Socket":
        return None
    return "NCCL's log says NET/Socket, not NET/IB"


def _thinking(record: SlownessEvidence) -> str | None:
    return "answers of this benchmark held reasoning" if record.log("thinking") else None


def _errors(record: SlownessEvidence) -> str | None:
    errors = [error for run in record.runs for error in run["errors"]]
    return f"{len(errors)} requests failed, the first: {errors[0][:200]}" if errors else None


def _preemptions(record: SlownessEvidence) -> str | None:
    count = record.total("preemptions")
    return f"{count} preemptions" if count and record.slow else None


def _drafts(record: SlownessEvidence) -> str | None:
    low = record.below("acceptance")
    if low:
        return "; ".join(f"{v.workload}: {v.measured:.0%}, not {v.expected:.0%}" for v in low)
    drafted, accepted = record.total("drafted"), record.total("accepted")
    if record.slow and drafted and accepted < 0.1 * drafted:
        return f"{accepted} of {drafted} drafted tokens were accepted"
    return None


def _stock(record: SlownessEvidence) -> str | None:
    shares = [v.measured / v.expected for v in record.below("tok_s") if v.measured and v.expected]
    fits = bool(shares) and all(_STOCK[0] <= share <= _STOCK[1] for share in shares)
    if not fits or _power_fault(record):
        return None
    return f"{min(shares):.0%} to {max(shares):.0%} of the expected tok/s"


def _mild_fault(record: SlownessEvidence) -> str | None:
    speeds = [v for v in record.verdicts if v.metric == "tok_s"]
    shares = [v.measured / v.expected for v in speeds if v.measured and v.expected]
    clocks, spark = record.loaded(1), record.result["hardware"].startswith("gb10")
    if not (spark and record.slow and shares) or median(shares) > _MILD or len(clocks) < _SAMPLES:
        return None
    return f"{median(shares):.0%} of the expected tok/s at {median(clocks):.0f} MHz"


def _cold(record: SlownessEvidence) -> str | None:
    warm = [
        run
        for workload in record.result["workloads"]
        if any(run["label"] == COLD for run in workload["runs"])
        for run in workload["runs"]
        if run["label"] != COLD
    ]
    queried, hit = (sum(run[key] for run in warm) for key in ("queried_tokens", "cached_tokens"))
    if not queried or hit >= _HITS * queried or not record.below("ttft_ms"):
        return None
    return f"{hit:,} of {queried:,} tokens of repeated prompts came from the prefix cache"


# The most likely and most certain first.
_KNOWN = (
    known_causes()["power-fault"].by(_power_fault),
    ReadingCause(
        name="thermal-slowdown",
        cause="The GPU became warm and slowed down",
        remedy="Give the Spark air on all sides, look for dust, and measure again when it is cool",
        source="our inference; the limits are our own",
        sign=_thermal,
    ),
    ReadingCause(
        name="others-at-work",
        cause="Other requests were served at the same time",
        remedy="Measure again without other clients",
        source="vLLM's own counters",
        sign=_others,
    ),
    ReadingCause(
        name="request-errors",
        cause="Some requests failed; the figures cover only the others",
        remedy=f"`{next_line('doctor')}`, and `journalctl -u 'vllm@*'`",
        source="the benchmark's own record",
        sign=_errors,
    ),
    known_causes()["nccl-on-sockets"].by(_socket),
    ReadingCause(
        name="thinking",
        cause="The model reasons before it answers; the expected figures are without reasoning",
        remedy='Ask with chat_template_kwargs {"enable_thinking": false}, which the recipe\'s '
        "default-chat-template-kwargs can hold",
        source="AEON-7 and docai.hu",
        sign=_thinking,
    ),
    ReadingCause(
        name="stock-kernels",
        cause="The image has no kernels for this GPU: about a quarter of the speed",
        remedy="Take the image of one of our recipes, or let the Spark build one: stock 0.17.0 had "
        "47.9 tok/s with FP8 weights already, and 0.28 has an attention kernel for SM 12.1",
        source="the SM121 guide: 13.3 against 48.6 tok/s",
        sign=_stock,
    ),
    ReadingCause(
        name="drafts-rejected",
        cause="The model takes few of the tokens that are drafted for it",
        remedy="Compare the drafter's commit with the recipe's source; measure at temperature 0",
        source="AEON-7 and docai.hu",
        sign=_drafts,
    ),
    ReadingCause(
        name="cold-cache",
        cause="Repeated prompts missed the prefix cache",
        remedy="`enable-prefix-caching: true` in the recipe's args; see that the prompt's start "
        "is fixed",
        source="docai.hu: 18.11 s cold, 3.87 s warm",
        sign=_cold,
    ),
    ReadingCause(
        name="kv-cache-full",
        cause="The KV cache was full, and requests were preempted",
        remedy="Lower max-num-seqs or max-model-len, or raise gpu-memory-utilization where "
        "memory is left",
        source="vLLM's counter num_preemptions",
        sign=_preemptions,
    ),
)


# A mere suspicion, for a result that shows none of the known causes.
_ELSE = ReadingCause(
    name="power-fault-suspected",
    cause="Nothing that was recorded explains it: in a milder form, the power fault leaves the "
    "clock as it should be",
    remedy=f"{UNPLUG_REMEDY}, and measure again; if that changes nothing, compare image "
    "and settings with the recipe's source",
    source="the SM121 guide: 36.6 in the place of 52.9 tok/s, until its supply was unplugged",
    sign=_mild_fault,
)


def causes(result: Result, verdicts: Sequence[Verdict]) -> list[Diagnosis]:
    """Return the likely causes of figures below the expected ones, most likely first.

    Faults that need no verdict (a GPU held back, errors, other clients) are always reported.

    Args:
        result: the benchmark's result, as parsed JSON.
        verdicts: on its figures.
    """
    record = SlownessEvidence(result, verdicts)
    return from_reading(_KNOWN, record) or from_reading([_ELSE], record)
