"""The programs that measure, on what real tools have written."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from host.common.progress import JobError
from host.insight.benchmark.bench_engine import medians, metric
from host.insight.benchmark.measure import (
    QUESTION,
    Measurement,
    Tool,
    arguments,
    errors,
    figures,
    long_prompt,
)
from sparkwright.declared.recipe.workloads import METRICS
from tests.makers.shell import program

PASSAGES = ["one two three four", "five six seven", "eight nine ten eleven twelve"]
# vLLM 0.26.0 with dummy weights and MTP 2 on an H200: eight requests at a time; what
# --metric-percentiles 0,5,95,100 adds is made up.
RESULT: dict[str, Any] = {
    "completed": 10,
    "total_input_tokens": 5303,
    "total_output_tokens": 1280,
    "output_throughput": 495.6611547525097,
    "median_ttft_ms": 158.34339150001142,
    "p95_ttft_ms": 1844.929439299986,
    "median_tpot_ms": 11.74327793307078,
    "p0_tpot_ms": 10.0,
    "p5_tpot_ms": 10.5,
    "p95_tpot_ms": 13.0,
    "p100_tpot_ms": 20.0,
    "spec_decode_acceptance_rate": 50.0,
    "spec_decode_acceptance_length": 2.0,
    "spec_decode_per_position_acceptance_rates": [0.75, 0.25],
    "output_lens": [128] * 10,
    "errors": [""] * 10,
}
METRICS_TEXT = """\
# HELP vllm:num_preemptions_total Cumulative number of preemption from the engine.
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{engine="0",model_name="m"} 7.0
vllm:num_preemptions_total{engine="1",model_name="m"} 2.0
vllm:num_preemptions_created{engine="0",model_name="m"} 1.7952457014440339e+09
vllm:num_requests_running{engine="0",model_name="m"} 1.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2.0
"""


def words(text: str) -> int:
    return len(text.split())


def programs(folder: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    """Let programs be scripts."""
    for name, script in scripts.items():
        program(folder / name, script)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.chdir(folder)


def test_figures_are_those_of_the_tool() -> None:
    own = figures([("", RESULT)])
    assert own == {
        "tok_s": 1000 / RESULT["median_tpot_ms"],
        "tok_s_p95": 1000 / 10.5,
        "tok_s_min": 50,
        "tok_s_max": 100,
        "total_tok_s": RESULT["output_throughput"],
        "ttft_ms": RESULT["median_ttft_ms"],
        "ttft_ms_p95": RESULT["p95_ttft_ms"],
        "prefill_tok_s": pytest.approx(530.3 / 0.1583434, rel=1e-5),
        "acceptance": 0.5,
        "accepted_length": 2,
        "acceptance_first": 0.75,
    }
    assert set(own) <= set(METRICS)


def test_of_several_runs_the_median_counts_and_a_cold_one_for_its_own_figures_alone() -> None:
    runs = [("", RESULT | {"output_throughput": speed}) for speed in (1.0, 2.0, 11.0)]
    assert figures(runs)["total_tok_s"] == 2
    cold = RESULT | {"median_ttft_ms": 1000.0, "median_tpot_ms": 500.0}
    own = figures([("cold", cold), ("warm", RESULT)])
    assert own["ttft_cold_ms"] == 1000
    assert own["ttft_ms"] == RESULT["median_ttft_ms"]
    assert own["tok_s"] == 1000 / RESULT["median_tpot_ms"]
    assert own["prefill_tok_s"] == pytest.approx(530.3)


def test_an_answer_of_one_token_has_no_speed_and_a_failed_one_no_figure() -> None:
    one = RESULT | dict.fromkeys([key for key in RESULT if "tpot" in key], 0.0)
    assert "tok_s" not in figures([("", one)])
    assert figures([("", RESULT | {"completed": 0})]) == {}
    without = {key: value for key, value in RESULT.items() if not key.startswith("spec")}
    assert "acceptance" not in figures([("", without)])


@pytest.mark.parametrize(
    ("length", "error", "said"),
    [
        (3, "Traceback (most recent call last):\n  …\nOSError: closed\n", "OSError: closed"),
        # Several releases of the tool count a stream that breaks off as a success.
        (0, "", "no token came"),
    ],
)
def test_failed_requests(length: int, error: str, said: str) -> None:
    assert errors({"output_lens": [4, length], "errors": ["", error]}) == [said]


def test_what_was_measured_before_the_engine_died_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing was, that is a failure."""
    monkeypatch.setattr("host.insight.benchmark.measure.Tool", lambda engine, options: None)
    orders: dict[str, Any] = dict.fromkeys(("place", "model", "release"), "x")

    def dies_at_c(workload: Any, context: int, tool: Tool) -> dict[str, Any]:
        if workload["name"] == "c":
            raise JobError("vllm@x does not answer.")
        return {"name": workload["name"], "skipped": None}

    def measured(names: str) -> dict[str, Any]:
        workloads = [{"name": name} for name in names]
        measurement = Measurement(Path("/x"), orders | {"options": [], "workloads": workloads})
        monkeypatch.setattr(measurement, "_of", dies_at_c)
        for question in ("others", "context"):
            monkeypatch.setattr(measurement._engine, question, lambda *asked: None)
        return measurement.result(SimpleNamespace(message=""))  # type: ignore[arg-type]

    result = measured("abcd")
    assert [each["name"] for each in result["workloads"]] == ["a", "b"]
    assert result["given_up"] == "c: vllm@x does not answer."
    with pytest.raises(JobError, match="does not answer"):
        measured("cd")


def test_metrics_of_all_engines_together() -> None:
    assert metric(METRICS_TEXT, "num_preemptions_total") == 9
    assert metric(METRICS_TEXT, "num_requests_running", "num_requests_waiting") == 3
    assert metric(METRICS_TEXT, "spec_decode_num_drafts_total") == 0


def test_what_nvidia_smi_says() -> None:
    """The largest GPU is measured, as it is judged: a card for a display may come first."""
    assert medians("345, 81.77, 30, [N/A]\n") == [345, 81.77, 30]
    assert medians("[N/A], 3.64, [Not Supported], [N/A]\n") == [None, 3.64, None]
    assert medians("No devices were found\n") == medians("") == [None, None, None]
    assert medians("210, 9.1, 35, 8192\n2400, 310.5, 66, 32607\n") == [2400, 310.5, 66]
    assert medians("1, [N/A], 30, 9\n3, [N/A], 40, 9\n8, 5, [N/A], 9\n") == [3, 5, 35]


@pytest.mark.parametrize("tokens", [60, 500, 5000])
def test_a_long_prompt_is_as_long_as_asked(tokens: int) -> None:
    text = long_prompt(tokens, PASSAGES, "x-1", words)
    assert text.startswith("Notes of collection x-1.")
    assert text.endswith(QUESTION)
    assert tokens - 7 < words(text) <= tokens


def _asked(monkeypatch: pytest.MonkeyPatch, started: float, **changes: Any) -> list[str]:
    monkeypatch.setattr("time.time", lambda: started)
    orders = dict.fromkeys(("place", "model", "release"), "x") | {"passages": PASSAGES}  # type: ignore[dict-item]
    measurement = Measurement(Path("/x"), orders)
    monkeypatch.setattr(measurement._engine, "tokens", words)
    own = {"name": "w", "asked": ["a?", None, None], "output_tokens": 7, "input_tokens": 100}
    asked = measurement._requests(own | {"fresh": False} | changes)
    assert {each["output_tokens"] for each in asked} == {7}
    return [each["prompt"] for each in asked]


def test_fresh_prompts_have_no_beginning_in_common(monkeypatch: pytest.MonkeyPatch) -> None:
    short, first, second = _asked(monkeypatch, 1.0)
    assert (short, first) == ("a?", second)
    begins = {
        prompt.split("\n")[0]
        for started in (1.0, 2.0)
        for prompt in _asked(monkeypatch, started, fresh=True, asked=[None] * 5)
    }
    assert len(begins) == 10


def test_thinking_is_off_and_whole_answers_are_whole() -> None:
    orders = {"model": "m", "tokenizer": "/models/m"}
    kind = {"concurrency": 4, "temperature": 0.7, "whole": True, "asked": ["a?"]}
    line = arguments(orders, kind, 12)
    assert json.loads(line[line.index("--extra-body") + 1]) == {
        "chat_template_kwargs": {"enable_thinking": False}
    }
    assert "--ignore-eos" in line
    assert "--ignore-eos" not in arguments(orders, kind | {"whole": False}, 12)
    assert "--num-warmups" in line
    assert "--num-warmups" not in arguments(orders, kind | {"asked": [None]}, 1)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 1", "(it ended in the middle|Broken pipe)"),
        ("""read line; echo '{"error": "ValueError: no"}'""", "ValueError: no"),
        ("read line; echo OCI runtime exec failed", "OCI runtime exec failed"),
    ],
)
def test_a_tool_without_a_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    programs(tmp_path, monkeypatch, docker=f'[ "$1" != inspect ] || exec echo image 1:1\n{script}')
    with pytest.raises(JobError, match=f"{said}.*journalctl -u benchmark"):
        Tool("vllm-x", []).run([], [])
    programs(tmp_path, monkeypatch, docker="exit 1")
    with pytest.raises(JobError, match="no container vllm-x"):
        Tool("vllm-x", [])
