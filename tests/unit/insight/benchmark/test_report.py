"""The report: all figures, the verdict with its causes, and no markup of anybody's text."""

from typing import Any

import pytest

from sparkwright.insight.benchmark.report import number, report
from sparkwright.insight.benchmark.verdict import Figures
from tests.makers.benchmark import EXPECTED, answer, recorded


def _report(
    result: dict[str, Any], expected: Figures = EXPECTED, hardware: str = "gb10"
) -> tuple[list[str], str]:
    table, page = report(answer(result), "chat: x", hardware, expected)
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
        for words in ("verdict: below", "unplug the supply from the wall", "under load"):
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


def test_the_lab_is_no_spark_and_what_was_skipped_is_named() -> None:
    result = recorded("within")
    assert not any("simulated" in line for line in _report(result, {})[0])
    table, page = _report(result, {}, "lab")
    assert any("GPU readings are simulated" in line for line in table)
    assert "do not fit into a max-model-len" in page.replace("\\", "")
