"""The page: all figures, nothing from elsewhere, and no markup of anybody's text."""

import copy
import html
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from sparkwright.benchmark.page import report
from sparkwright.benchmark.plots import number
from sparkwright.recipe.loader import load_recipe

RESULTS = Path(__file__).parents[1] / "results"
NAMES = ["h200", "within", "power-fault"]


def _result(name: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return result


EXPECTED = load_recipe("qwen3.6-35b-nvfp4-dflash").for_sparks(1).expected


class _Balance(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "link", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", NAMES)
def test_it_stands_alone(name: str) -> None:
    page = report(_result(name), EXPECTED).page
    for outside in ("http:", "https:", "<script", "<link", "@import", "url(", " src="):
        assert outside not in page
    balance = _Balance()
    balance.feed(page)
    assert balance.open == []


def test_it_holds_every_expected_figure() -> None:
    page = report(_result("within"), EXPECTED).page
    for workload, wanted in EXPECTED.items():
        assert f'<th scope="row">{workload}</th>' in page
        for metric, figure in wanted.items():
            shown = figure * 100 if metric.startswith("acceptance") else figure
            assert f'<td class="n">{number(shown)}</td>' in page


def test_it_shows_how_far_drafts_hold() -> None:
    result = _result("within")
    assert "Drafts accepted, by place" not in report(result, EXPECTED).page
    for workload in result["workloads"]:
        for run in workload["runs"]:
            run["accepted_at"] = [run["drafts"] * 3 // 4, run["drafts"] // 4]
    page = report(result, EXPECTED).page
    assert "Drafts accepted, by place" in page
    assert "token 2: " in page


def test_nobodys_text_is_markup() -> None:
    result = copy.deepcopy(_result("within"))
    hostile = '"><script>alert(1)</script>{{ 7 * 7 }}'
    for key in ("replica", "recipe", "release", "vllm", "model"):
        result[key] = hostile
    for workload in result["workloads"]:
        workload["name"] += hostile
    result["workloads"][0]["runs"][0]["errors"] = [hostile]
    result["workloads"][-1]["skipped"] = result["given_up"] = hostile
    page = report(result, {}).page
    assert "<script" not in page
    assert html.escape("<script>alert(1)</script>") in page
    assert "{{ 7 * 7 }}" in page


def test_the_verdict_with_cause_and_remedy() -> None:
    told = report(_result("power-fault"), EXPECTED)
    assert told.verdict == "below"
    assert "Below what is expected" in told.page
    for text in (told.page, "\n".join(told.table)):
        assert "unplug the supply from the wall" in text
        assert "under load" in text
    assert "verdict: below" in told.table


def test_slow_without_a_known_cause_is_said() -> None:
    told = report(_result("power-fault") | {"gpu": []}, EXPECTED)
    assert "no known cause fits what was recorded" in told.table
    assert "No known cause fits what was recorded" in told.page
    assert "nvidia-smi told none" in told.page


def test_without_expected_figures_nothing_is_judged() -> None:
    told = report(_result("h200"), {})
    assert told.verdict == "no figures to compare"
    assert "No figures to compare" in told.page
    assert any("concurrent-8" in line and "85.2" in line for line in told.table)


def test_the_lab_is_no_spark() -> None:
    result = _result("within")
    assert "GPU readings are simulated" not in report(result, {}).page
    assert "GPU readings are simulated" in report(result | {"hardware": "lab"}, {}).page


def test_what_was_skipped_is_named() -> None:
    assert "do not fit into a max-model-len" in report(_result("within"), EXPECTED).page


def test_nothing_measured_at_all() -> None:
    told = report(_result("within") | {"workloads": [], "gpu": []}, EXPECTED)
    assert told.verdict == "no figures to compare"
