"""The figures of a benchmark, computed from its records: one for each workload and metric."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from statistics import median, quantiles
from typing import Any

from sparkwright.common.startup import start_figures

Result = Mapping[str, Any]
Figures = Mapping[str, Mapping[str, float]]

COLD = "cold"


def figures(result: Result) -> dict[str, dict[str, float]]:
    """Return workload -> metric -> figure of a benchmark's result.

    The phases of the engine's start are a workload of their own. If there are other runs, cold ones
    count only for ``ttft_cold_ms``, ``prefill_tok_s`` and ``errors``. Skipped workloads, and
    metrics without a record, are left out.

    Args:
        result: the benchmark's result, as parsed JSON.
    """
    return start_figures(result.get("start") or ()) | {
        workload["name"]: _of_runs(workload["runs"])
        for workload in result["workloads"]
        if not workload.get("skipped") and workload["runs"]
    }


def accepted_by_place(result: Result) -> list[float]:
    """Return the accepted share of the first, second, … token of all drafts; empty without drafts.

    Args:
        result: as for `figures`.
    """
    return _by_place([run for workload in result["workloads"] for run in workload["runs"]])


def _p95(values: Sequence[float]) -> float:
    """Return the 95th percentile with linear interpolation, as numpy and so ``vllm bench`` do."""
    if len(values) == 1:
        return values[0]
    return quantiles(values, n=20, method="inclusive")[-1]


def _of_runs(runs: Sequence[Result]) -> dict[str, float]:
    cold = [run for run in runs if run["label"] == COLD]
    usual = [run for run in runs if run["label"] != COLD] or cold
    values: dict[str, float] = {"errors": sum(len(run["errors"]) for run in runs)}
    values |= _decode(usual)
    if times := _all(usual, "ttft_ms"):
        values |= {"ttft_ms": median(times), "ttft_ms_p95": _p95(times)}
    if times := _all(cold, "ttft_ms"):
        values["ttft_cold_ms"] = median(times)
    # With a warm prefix nearly nothing of a prompt is read again.
    if speeds := _prefill(cold or usual):
        values["prefill_tok_s"] = median(speeds)
    if drafted := sum(run["drafted"] for run in usual):
        accepted = sum(run["accepted"] for run in usual)
        values["acceptance"] = accepted / drafted
        if drafts := sum(run["drafts"] for run in usual):
            values["accepted_length"] = 1 + accepted / drafts
    if shares := _by_place(usual):
        values["acceptance_first"] = shares[0]
    return values


def _by_place(runs: Sequence[Result]) -> list[float]:
    drafts = sum(run["drafts"] for run in runs)
    accepted = zip_longest(*(run.get("accepted_at") or () for run in runs), fillvalue=0)
    return [sum(counts) / drafts for counts in accepted] if drafts else []


def _decode(runs: Sequence[Result]) -> dict[str, float]:
    # An answer of one token has no time per further token.
    speeds = [1000 / time for time in _all(runs, "tpot_ms") if time > 0]
    totals = [
        sum(run["output_tokens"]) / (run["ended"] - run["started"])
        for run in runs
        if run["output_tokens"] and run["ended"] > run["started"]
    ]
    values = {"total_tok_s": median(totals)} if totals else {}
    if speeds:
        values |= {
            "tok_s": median(speeds),
            "tok_s_p95": _p95(speeds),
            "tok_s_min": min(speeds),
            "tok_s_max": max(speeds),
        }
    return values


def _prefill(runs: Sequence[Result]) -> list[float]:
    return [
        tokens / time * 1000
        for run in runs
        for tokens, time in zip(run["input_tokens"], run["ttft_ms"], strict=True)
        if time > 0
    ]


def _all(runs: Sequence[Result], key: str) -> list[float]:
    return [value for run in runs for value in run[key]]
