"""Figures: equal to what the tool itself told of the same run."""

import json
from pathlib import Path
from typing import Any

import pytest

from sparkwright.benchmark.figures import accepted_by_place, figures

RESULTS = Path(__file__).parents[1] / "results"
H200 = json.loads((RESULTS / "h200.json").read_text())


@pytest.mark.parametrize("workload", ["concurrent-1", "concurrent-8"])
def test_figures_are_those_of_the_tool(workload: str) -> None:
    own, tool = figures(H200)[workload], H200["tool"][workload]
    assert own["ttft_ms"] == pytest.approx(tool["median_ttft_ms"], rel=1e-6)
    assert own["ttft_ms_p95"] == pytest.approx(tool["p95_ttft_ms"], rel=1e-6)
    # The times per token were summed of the saved gaps, which leave out the stream's last event.
    assert 1000 / own["tok_s"] == pytest.approx(tool["median_tpot_ms"], rel=1e-3)
    assert own["total_tok_s"] == pytest.approx(tool["output_throughput"], rel=1e-4)
    assert own["acceptance"] == tool["spec_decode_acceptance_rate"]


def _run(**changes: Any) -> dict[str, Any]:
    return {
        "label": "", "concurrency": 1, "started": 0.0, "ended": 2.0,
        "input_tokens": [100], "output_tokens": [11], "ttft_ms": [100.0], "tpot_ms": [20.0],
        "errors": [], "drafted": 0, "accepted": 0, "drafts": 0,
        "preemptions": 0, "cached_tokens": 0, "queried_tokens": 0,
    } | changes  # fmt: skip


def _of(*runs: dict[str, Any], skipped: str | None = None) -> dict[str, dict[str, float]]:
    return figures({"workloads": [{"name": "w", "skipped": skipped, "runs": list(runs)}]})


def test_a_percentile_is_interpolated() -> None:
    four = _run(input_tokens=[100] * 4, ttft_ms=[4.0, 2.0, 1.0, 3.0])
    assert _of(four)["w"]["ttft_ms_p95"] == pytest.approx(3.85)
    assert _of(_run(ttft_ms=[4.0]))["w"]["ttft_ms_p95"] == 4


def test_a_cold_run_counts_for_its_own_figures_alone() -> None:
    cold = _run(label="cold", ttft_ms=[1000.0], tpot_ms=[500.0], errors=["refused"])
    own = _of(cold, _run(label="warm"))["w"]
    assert own["ttft_cold_ms"] == 1000
    assert own["ttft_ms"] == 100
    assert own["tok_s"] == 50
    assert own["prefill_tok_s"] == 100
    assert own["errors"] == 1


def test_throughput_is_the_median_of_repetitions() -> None:
    runs = [_run(ended=end) for end in (1.0, 2.0, 11.0)]
    assert _of(*runs)["w"]["total_tok_s"] == 5.5


def test_an_answer_of_one_token_has_no_speed() -> None:
    assert "tok_s" not in _of(_run(output_tokens=[1], tpot_ms=[0.0]))["w"]


def test_requests_that_all_failed_leave_only_the_errors() -> None:
    empty: dict[str, Any] = {
        key: [] for key in ("input_tokens", "output_tokens", "ttft_ms", "tpot_ms")
    }
    assert _of(_run(**empty, errors=["500", "500"])) == {"w": {"errors": 2}}


def test_drafts_by_place_and_the_length_of_a_step() -> None:
    """vLLM's own: a share of the drafts at each place, and one token more than was accepted."""
    runs = [
        _run(drafted=20, accepted=9, drafts=10, accepted_at=[7, 2]),
        # The first draft of an engine brings the labels.
        _run(drafted=20, accepted=11, drafts=10, accepted_at=[8, 2, 1]),
    ]
    own = _of(*runs)["w"]
    assert own["acceptance"] == 0.5
    assert own["acceptance_first"] == 0.75
    assert own["accepted_length"] == 2
    result = {"workloads": [{"name": "w", "runs": runs}, {"name": "skipped", "runs": []}]}
    assert accepted_by_place(result) == [0.75, 0.2, 0.05]


def test_without_drafts_there_is_no_length() -> None:
    assert not {"acceptance", "acceptance_first", "accepted_length"} & set(_of(_run())["w"])
    assert accepted_by_place({"workloads": [{"name": "w", "runs": [_run()]}]}) == []


def test_the_start_is_one_of_the_figures() -> None:
    result = {"start": [(1.0, "Loading weights took 501 seconds")], "workloads": []}
    assert figures(result) == {"start-warm": {"weights_seconds": 501}}


def test_a_skipped_workload_has_no_figures() -> None:
    assert _of(skipped="too long") == {}
