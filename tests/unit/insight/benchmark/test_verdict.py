"""Verdicts: edges of the tolerances, and what decides; causes by their evidence; the report."""

from typing import Any

import pytest

from sparkwright.declared.recipe.workloads import METRICS
from sparkwright.insight.benchmark.verdict import (
    NOTHING,
    Figures,
    causes,
    number,
    overall,
    report,
    verdicts,
)
from sparkwright.plan.causes.log_causes import Diagnosis
from sparkwright.plan.causes.thresholds import FAULT_MHZ, FAULT_WATTS
from tests.makers.benchmark import EXPECTED, answer, recorded

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
        ({"single": {"tok_s": 90, "errors": 0}}, {"single": {"tok_s": 50, "errors": 0}}, "above"),
    ],
)  # fmt: skip
def test_what_decides(measured: Figures, expected: Figures, verdict: str) -> None:
    assert overall(verdicts(measured, expected)) == verdict


# The SM121 guide: 36.6 in the place of 52.9 tok/s, and a clock as it should be.
QUARTER_LESS = 52.9 / 36.6


def _found(
    result: dict[str, Any], expected: Figures = EXPECTED, hardware: str = "gb10"
) -> list[Diagnosis]:
    read = answer(result)
    return causes(read, verdicts(read.figures, expected), hardware)


def _names(*result: Any, **given: Any) -> list[str]:
    return [each.name for each in _found(*result, **given)]


def _within(
    slower: float = 1.0, gpu: Any = None, first: Any = None, figures: Any = None, **whole: Any
) -> dict[str, Any]:
    """Return a result within what is expected, but for some of it.

    Args:
        gpu: The readings of the GPU, or what returns them for a workload's place.
        first: Of the first workload.
        figures: Of every workload.
    """
    result = recorded("within") | whole
    measured = [each for each in result["workloads"] if "figures" in each]
    for place, workload in enumerate(measured):
        workload["figures"]["tok_s"] /= slower
        workload["figures"] |= figures or {}
        if gpu:
            workload["gpu"] = gpu(place) if callable(gpu) else gpu
    measured[0] |= first or {}
    return result


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, []),
        ({"slower": 3.65}, ["stock-kernels"]),
        ({"gpu": lambda at: [2400 - 60 * at, 60, 60 + 2 * at]}, ["thermal-slowdown"]),
        ({"others": 3}, ["others-at-work"]),
        ({"first": {"errors": ["HTTP 503"]}}, ["request-errors"]),
        ({"slower": 1.6, "figures": {"acceptance": 0.01}}, ["drafts-rejected"]),
        ({"slower": 1.6, "first": {"preemptions": 4}}, ["kv-cache-full"]),
        ({"slower": QUARTER_LESS}, ["power-fault-suspected"]),
        ({"gpu": [208, 4, 40]}, ["power-fault"]),
        ({"gpu": [FAULT_MHZ, FAULT_WATTS, 60]}, ["power-fault"]),
        ({"gpu": [FAULT_MHZ, None, 60]}, ["power-fault"]),
        ({"gpu": [FAULT_MHZ + 1, FAULT_WATTS, 60]}, []),
        ({"gpu": [FAULT_MHZ, FAULT_WATTS + 1, 60]}, []),
        ({"gpu": [None, None, None]}, []),
    ],
)
def test_a_cause_shows_by_its_evidence(changes: dict[str, Any], names: list[str]) -> None:
    assert _names(_within(**changes)) == names


@pytest.mark.parametrize(
    ("result", "name", "evidence"),
    [
        (_within(slower=QUARTER_LESS), "power-fault-suspected", "of the expected tok/s at 24"),
        # It shows by clock and power, without expected figures as well.
        (recorded("power-fault"), "power-fault", "MHz and 29 W under load"),
    ],
)
def test_the_power_fault_of_a_gb10(result: dict[str, Any], name: str, evidence: str) -> None:
    (found,) = _found(result)
    assert found.name == name
    assert evidence in found.evidence
    assert "unplug" in found.remedy
    assert _names(result, {}) == [name] * (name == "power-fault")
    for hardware in ("lab", "rtx-5090"):
        assert _names(result, hardware=hardware) == []


def test_the_milder_power_fault_is_suspected_where_nothing_else_explains_it() -> None:
    assert _names(_within(slower=QUARTER_LESS) | {"others": 3}) == ["others-at-work"]


def _report(result: dict[str, Any], expected: Figures = EXPECTED) -> tuple[list[str], str]:
    table, page = report(answer(result), "chat: x", "gb10", expected)
    return table, "\n".join(page)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((None, "-"), (0, "0"), (3.0, "3"), (6.5, "6.50"), (9.99, "9.99"), (10.5, "10.5")),
        *((48.61, "48.6"), (313.6, "313.6"), (999.5, "999.5"), (1000.4, "1,000")),
        *((14100, "14,100"), (-10.5, "-10.5"), (-1000.4, "-1,000")),
    ],
)
def test_numbers_as_people_read_them(value: float | None, text: str) -> None:
    assert number(value) == text


def test_the_page_holds_every_expected_figure() -> None:
    _, page = _report(recorded("within"))
    for workload, wanted in EXPECTED.items():
        assert f"| {workload} |" in page
        for metric, figure in wanted.items():
            shown = figure * 100 if metric.startswith("acceptance") else figure
            assert f"| {number(shown)} |" in page


def test_nobodys_text_is_markup() -> None:
    result = recorded("within")
    hostile = "<script>| [x](http://y) `z`"
    result["workloads"][0]["name"] = hostile
    result["workloads"][0]["errors"] = [hostile]
    result["workloads"][-1]["skipped"] = hostile
    _, page = _report(result)
    assert hostile not in page
    for markup in ("<script", "[x]", " `z`"):
        assert markup not in page.replace("\\" + markup[0], "")


def test_the_verdict_with_a_cause_and_its_remedy_or_none() -> None:
    result = recorded("power-fault")
    table, page = _report(result)
    for text in (page, "\n".join(table)):
        for words in ("verdict: below", "unplug its supply from wall", "under load"):
            assert words in text
    for workload in result["workloads"]:
        workload["gpu"] = [None, None, None]
        if "figures" in workload:
            workload["figures"]["tok_s"] *= 1.45
    table, _ = _report(result)
    assert "no known cause fits what was recorded" in table


def test_without_figures_to_compare_nothing_is_judged_and_speeds_are_shown() -> None:
    table, _ = _report(recorded("within"), {})
    assert "verdict: no figures to compare" in table
    assert any(line.startswith("concurrent-4") and "tok/s" in line for line in table)
    table, _ = _report(recorded("within") | {"workloads": []})
    assert "verdict: no figures to compare" in table
