"""The programs that measure, on what real tools have written."""

import asyncio
import json
import sys
from types import ModuleType, SimpleNamespace

import pytest

from host.benchmark.bench_engine import COUNTERS, MeasuredEngine, positions, samples
from host.benchmark.bench_gpu import sample
from host.benchmark.bench_prompts import QUESTION, long_prompt, requests
from host.benchmark.bench_tool import stop_after, until
from host.benchmark.measure import TIME_IS_UP, Measurement, arguments, run_of
from host.common.progress import JobError
from sparkwright.common.startup import KEPT, start_figures

PASSAGES = ["one two three four", "five six seven", "eight nine ten eleven twelve"]
# Two of ten requests of a real run, and a third that the tool could not have answered. vLLM 0.26.0
# with dummy weights on an H200; its gaps between tokens are cut to three.
RESULT = {
    "duration": 10.92298299799998,
    "input_lens": [530, 532, 530],
    "output_lens": [4, 1, 0],
    "ttfts": [0.08099821099997939, 0.08163813299998424, 0.0],
    "itls": [[7.129000010763775e-06, 0.007348602999996956, 0.007390363000013167], [], []],
    "start_times": [246.935661083, 247.978521306, 249.029518549],
    "errors": ["", "", "Traceback (most recent call last):\n  …\nClientError: closed\n"],
}
METRICS = """\
# HELP vllm:spec_decode_num_draft_tokens_total Number of draft tokens.
# TYPE vllm:spec_decode_num_draft_tokens_total counter
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 11176.0
vllm:spec_decode_num_draft_tokens_created{engine="0",model_name="m"} 1.7952457014440339e+09
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 23342.0
vllm:prefix_cache_queries_total{engine="1",model_name="m"} 2.0
vllm:num_requests_running{engine="0",model_name="m"} 0.0
"""


def words(text: str) -> int:
    return len(text.split())


def workload(**changes) -> dict:
    return {
        "prompts": ["short", "long"],
        "texts": {"short": ["a?", "b?"]},
        "requests": 5,
        "output_tokens": 7,
        "input_tokens": 100,
        "fresh": False,
        **changes,
    }


def test_a_run_of_the_real_tool():
    run = run_of(RESULT, 240.0)
    assert (run["started"], run["ended"]) == (6.936, 17.859)
    assert (run["input_tokens"], run["output_tokens"]) == ([530, 532], [4, 1])
    assert run["ttft_ms"] == [80.998, 81.638]
    # Three gaps after the first token; an answer of one token has none.
    assert run["tpot_ms"] == [round((0.007129 + 7.348603 + 7.390363) / 3, 3), 0]
    assert run["errors"] == ["ClientError: closed"]


@pytest.mark.parametrize(
    ("error", "said"), [("", "no token came"), (" \n", "no token came"), ("a\nb\n", "b")]
)
def test_an_answer_without_a_token_is_an_error(error, said):
    """Several releases of the tool count a stream that breaks off as a success."""
    run = run_of(RESULT | {"errors": ["", "", error]}, 240.0)
    assert run["errors"] == [said]
    assert len(run["ttft_ms"]) == 2


def test_what_was_not_asked_any_more_is_no_failure():
    left = {
        **RESULT,
        "errors": ["", "", TIME_IS_UP],
        # The tool counts none of a request's times from its beginning.
        "start_times": [246.935661083, 247.978521306, 0.0],
    }
    run = run_of(left, 240.0)
    assert (run["errors"], len(run["ttft_ms"]), run["started"]) == ([], 2, 6.936)


def test_nothing_is_asked_once_the_time_is_up():
    """Requests of 40 s each by the clock, two at once: each asks again while there is time."""
    now, asked = [0.0], []

    async def ask(number, *, session):
        asked.append((number, now[0]))
        now[0] += 40
        return f"{number} {session}"

    limited = until(ask, 90, lambda at: f"left at {at:g}", clock=lambda: now[0])
    answers = [asyncio.run(limited(number, session="s")) for number in range(5)]
    assert asked == [(0, 0), (1, 40), (2, 80)]
    assert answers == ["0 s", "1 s", "2 s", "left at 120", "left at 120"]


def test_the_tool_is_left_as_it_was_by_a_run_without_a_bound(monkeypatch):
    """As vLLM 0.17 to 0.33 have it: the tool looks its function up as each run begins."""

    class Output:
        pass

    async def ask(number):
        return number

    serve = ModuleType("serve")
    serve.ASYNC_REQUEST_FUNCS, serve.RequestFuncOutput = {"openai-chat": ask}, Output
    package = ModuleType("vllm.benchmarks")
    package.serve = serve
    for name, module in (("vllm", ModuleType("vllm")), ("vllm.benchmarks", package)):
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr("host.benchmark.bench_tool._ASKS", {})
    stop_after(1e-9)
    limited = serve.ASYNC_REQUEST_FUNCS["openai-chat"]
    assert asyncio.run(limited(1)) == 1
    left = asyncio.run(limited(2))
    assert (left.error, left.start_time > 0) == (TIME_IS_UP, True)
    stop_after(0)
    assert serve.ASYNC_REQUEST_FUNCS["openai-chat"] is ask


class Dying(Measurement):
    """An engine that dies at the third workload."""

    def _of(self, workload, context, tool):
        if workload["name"] == "c":
            raise JobError("vllm@x does not answer.")
        return {"name": workload["name"], "skipped": None, "runs": []}


def measured_by_a_dying_engine(monkeypatch, names):
    monkeypatch.setattr("host.benchmark.measure.Tool", lambda container: None)
    orders = dict.fromkeys(("place", "model", "release", "replica", "recipe", "vllm"), "x")
    orders |= {"hardware": "lab", "sparks": 1, "workloads": [{"name": name} for name in names]}
    orders["start"] = ""
    measurement = Dying(orders)
    for question in ("others", "thinks", "context", "network", "start"):
        monkeypatch.setattr(measurement._engine, question, lambda *asked: None)
    return measurement.result(SimpleNamespace(message=""))


def test_what_was_measured_before_the_engine_died_is_kept(monkeypatch):
    result = measured_by_a_dying_engine(monkeypatch, "abcd")
    assert [each["name"] for each in result["workloads"]] == ["a", "b"]
    assert result["given_up"] == "c: vllm@x does not answer."


def test_nothing_measured_is_a_failure(monkeypatch):
    with pytest.raises(JobError, match="does not answer"):
        measured_by_a_dying_engine(monkeypatch, "cd")


def test_counters_of_all_engines_together():
    found = samples(METRICS)
    assert found[COUNTERS["drafted"]] == 11176
    assert found[COUNTERS["queried_tokens"]] == 23344
    assert COUNTERS["accepted"] not in found


def test_drafts_are_counted_by_place():
    """Of vLLM 0.32.0 with MTP-2; a second engine's are added."""
    name = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
    lines = [
        "# TYPE vllm:spec_decode_num_accepted_tokens_per_pos counter",
        f'{name}{{engine="0",model_name="m",position="0"}} 412.0',
        f'{name}{{engine="0",model_name="m",position="1"}} 230.0',
        f'{name}{{engine="1",model_name="m",position="0"}} 8.0',
        f'{name.replace("_total", "_created")}{{engine="0",position="0"}} 1.79e+09',
    ]
    assert positions("\n".join(lines) + "\n") == [420, 230]
    assert positions(METRICS) == []


def test_only_what_a_start_is_wanted_for_is_read_of_a_journal(tmp_path, monkeypatch):
    """An engine that serves logs without end: what comes after is not waited for."""
    for name, script in {
        "systemctl": "echo 0123",
        "journalctl": """echo "$@" > called
echo '1764.5 spark1 engine[7]: starting the engine'
echo '1770.25 spark1 engine[7]: (Worker pid=9) INFO [x.py:1] Loading weights took 5.50 seconds'
echo '1771.0 spark1 engine[7]: noise'
echo '1790.0 spark1 engine[7]: serving'
while echo '1791.0 spark1 engine[7]: INFO: "POST /v1/chat/completions" 200 OK'; do :; done""",
    }.items():
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.chdir(tmp_path)
    kept = MeasuredEngine("http://x", "m", "vllm@x").start(KEPT)
    assert [at for at, _ in kept] == [1764.5, 1770.25, 1790.0]
    assert "_SYSTEMD_INVOCATION_ID=0123" in (tmp_path / "called").read_text()
    assert start_figures(kept) == {"start-warm": {"weights_seconds": 5.5, "ready_seconds": 25.5}}


def test_what_nvidia_smi_says():
    assert sample("345, 81.77, 30, [N/A]\n") == [345, 81.77, 30]
    assert sample("[N/A], 3.64, [Not Supported], [N/A]\n") == [None, 3.64, None]
    assert sample("") == [None, None, None]


def test_the_largest_gpu_is_measured():
    """As it is judged and watched: a card for a display may come first."""
    assert sample("210, 9.1, 35, 8192\n2400, 310.5, 66, 32607\n") == [2400, 310.5, 66]


@pytest.mark.parametrize("tokens", [60, 500, 5000])
def test_a_long_prompt_is_as_long_as_asked(tokens):
    text = long_prompt(tokens, PASSAGES, "x-1", words)
    assert text.startswith("Notes of collection x-1.")
    assert text.endswith(QUESTION)
    assert tokens - 7 < words(text) <= tokens


def test_kinds_are_asked_in_turn():
    asked = requests(workload(), PASSAGES, "n", words)
    assert [each["output_tokens"] for each in asked] == [7] * 5
    prompts = [each["prompt"] for each in asked]
    assert [prompts[0], prompts[2], prompts[4]] == ["a?", "b?", "a?"]
    assert prompts[1] == prompts[3] == long_prompt(100, PASSAGES, "n-0", words)


def test_fresh_prompts_have_no_beginning_in_common():
    asked = requests(workload(prompts=["long"], fresh=True), PASSAGES, "n", words)
    begin = {each["prompt"].split("\n")[0] for each in asked}
    assert len(begin) == 5
    other = requests(workload(prompts=["long"], fresh=True), PASSAGES, "m", words)
    assert begin.isdisjoint(each["prompt"].split("\n")[0] for each in other)


def test_thinking_is_off_and_whole_answers_are_whole():
    orders = {"model": "m", "tokenizer": "/models/m"}
    kind = {"concurrency": 4, "temperature": 0.7, "whole": True, "prompts": ["short"]}
    kind |= {"seconds": 0}
    line = arguments(orders, kind, 12)
    assert json.loads(line[line.index("--extra-body") + 1]) == {
        "chat_template_kwargs": {"enable_thinking": False}
    }
    assert "--ignore-eos" in line
    assert "--ignore-eos" not in arguments(orders, kind | {"whole": False}, 12)
    assert "--num-warmups" in line
    assert "--num-warmups" not in arguments(orders, kind | {"prompts": ["long"]}, 1)
    # A request that warms up would begin the time of those that count.
    assert "--num-warmups" not in arguments(orders, kind | {"seconds": 90}, 1)
