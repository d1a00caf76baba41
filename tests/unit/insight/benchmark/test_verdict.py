"""Verdicts: the edges of the tolerances, and what decides over the whole."""

import pytest

from sparkwright.declared.recipe.workloads import METRICS
from sparkwright.insight.benchmark.verdict import NOTHING, Figures, overall, verdicts

BOTH: Figures = {"single": {"tok_s": 50, "total_tok_s": 50}}


@pytest.mark.parametrize(
    ("metric", "measured", "expected", "standing"),
    [
        ("tok_s", 85, 100, "within"),
        ("tok_s", 84.9, 100, "below"),
        ("tok_s", 115, 100, "within"),
        ("tok_s", 115.1, 100, "above"),
        ("ttft_ms", 150, 100, "within"),
        ("ttft_ms", 150.1, 100, "below"),
        ("ttft_ms", 49.9, 100, "above"),
        ("ttft_cold_ms", 151, 100, "below"),
        ("prefill_tok_s", 60, 100, "within"),
        ("prefill_tok_s", 59, 100, "below"),
        ("ttft_ms", 1300, 1000, "within"),
        ("ttft_ms", 1301, 1000, "below"),
        ("acceptance", 0.66, 0.76, "within"),
        ("acceptance", 0.65, 0.76, "below"),
    ],
)
def test_edges(metric: str, measured: float, expected: float, standing: str) -> None:
    (found,) = verdicts({"single": {metric: measured}}, {"single": {metric: expected}})
    assert found.standing == standing


def test_drafts_widen_the_tolerance_of_speeds() -> None:
    measured = {"single": {"tok_s": 80.0, "acceptance": 0.7}}
    assert verdicts(measured, {"single": {"tok_s": 100}})[0].standing == "within"


def test_a_start_was_cold_or_warm() -> None:
    expected = {"start-cold": {"compile_seconds": 43}, "start-warm": {"compile_seconds": 10}}
    (found,) = verdicts({"start-warm": {"compile_seconds": 31}}, expected)
    assert (found.workload, found.word, found.decides) == ("start-warm", "slower", False)


@pytest.mark.parametrize(("workload", "verdict"), [("single", "below"), ("decode-50", NOTHING)])
def test_a_section_of_few_trials_decides_nothing(workload: str, verdict: str) -> None:
    found = verdicts({workload: {"tok_s": 10}}, {workload: {"tok_s": 100}})
    assert (found[0].word, overall(found)) == ("below", verdict)


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_has_a_tolerance(metric: str) -> None:
    (found,) = verdicts({}, {"single": {metric: 1}})
    assert found.standing == "not measured"
    (found,) = verdicts({"single": {metric: 1}}, {"single": {metric: 1}})
    assert found.standing == "within"


@pytest.mark.parametrize(
    ("measured", "expected", "verdict"),
    [
        ({}, {}, NOTHING),
        ({"code": {"tok_s": 50}}, {"single": {"tok_s": 50}}, NOTHING),
        ({"single": {"ttft_ms": 900}}, {"single": {"ttft_ms": 100}}, NOTHING),
        ({"single": {"tok_s": 9, "ttft_ms": 99}}, {"single": {"tok_s": 9, "ttft_ms": 1}}, "within"),
        ({"single": {"tok_s": 90}}, {"single": {"tok_s": 50}}, "above"),
        ({"single": {"tok_s": 90, "total_tok_s": 50}}, BOTH, "within"),
        ({"single": {"tok_s": 90, "total_tok_s": 9}}, BOTH, "below"),
        ({"single": {"errors": 3}}, {"single": {"tok_s": 50}}, "below"),
        ({"decode-50": {"errors": 1}}, {"decode-50": {"tok_s": 100}}, "below"),
        ({"single": {"tok_s": 50, "errors": 1}}, {"single": {"tok_s": 50}}, "below"),
        ({"single": {"tok_s": 90, "errors": 0}}, {"single": {"tok_s": 50, "errors": 0}}, "above"),
    ],
)  # fmt: skip
def test_what_decides(measured: Figures, expected: Figures, verdict: str) -> None:
    assert overall(verdicts(measured, expected)) == verdict
