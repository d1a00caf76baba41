"""What an engine counts: the product, its dashboards and its watch go by it."""

import json
import re
import threading

import pytest

from host.common import probe
from host.state.engine_api import FINISHED, LOAD, between, ends
from tests.contract import facts
from tests.contract.engines import (
    COMPLETIONS,
    JSON,
    Connection,
    Running,
    chat,
    choice,
    until,
)


def samples(serving: Running, names: tuple[str, ...]) -> list[str]:
    """Return the lines of some counters, as the product's looks take them."""
    pattern = re.compile(rf"vllm:({'|'.join(names)})[{{ ]")
    return [line for line in serving.ask("/metrics").text.splitlines() if pattern.match(line)]


def value(serving: Running, name: str, label: str = "") -> float:
    """Return the value of a counter; the sum, where several have the label."""
    lines = [line for line in samples(serving, (name,)) if label in line]
    assert lines, name
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def settled(serving: Running) -> None:
    names = ("num_requests_running", "kv_cache_usage_perc")
    until(lambda: not any(value(serving, name) for name in names), "an idle engine")


def test_metrics(serving: Running) -> None:
    """The families that dashboards, rules and looks read, by name, kind, labels and buckets."""
    sized = "vllm:cache_config_info"
    known, found = (
        [family for family in families if family["name"] != sized]
        for families in (facts.CAPTURED["metrics"], facts.metrics(serving.ask("/metrics").text))
    )
    assert found == known
    assert value(serving, "cache_config_info") == 1


def test_what_an_answer_counts(serving: Running) -> None:
    settled(serving)
    before = samples(serving, LOAD)
    counters = {
        "generation_tokens_total": 8.0,
        "prompt_tokens_total": 29.0,
        "prefix_cache_queries_total": 29.0,
        "iteration_tokens_total_count": 8.0,
        "request_generation_tokens_count": 1.0,
        "time_to_first_token_seconds_count": 1.0,
        "request_time_per_output_token_seconds_count": 1.0,
        "inter_token_latency_seconds_count": 7.0,
        "e2e_request_latency_seconds_count": 1.0,
        "num_preemptions_total": 0.0,
    }
    old = {name: value(serving, name) for name in counters}
    old_ends = ends("\n".join(samples(serving, FINISHED)))
    choice(serving)
    settled(serving)
    assert {name: value(serving, name) - old[name] for name in counters} == counters
    now = ends("\n".join(samples(serving, FINISHED)))
    assert old_ends
    assert now
    assert (now["cut"] - old_ends["cut"], now["ended"] - old_ends["ended"]) == (1, 0)
    seen = between("\n".join(before), "\n".join(samples(serving, LOAD)), 1.0)
    assert seen
    names = ("tokens", "prompt_tokens", "running", "kv_usage")
    assert [seen[name] for name in names] == [8, 29, 0, 0]


def test_an_idle_engine_counts_nothing(serving: Running) -> None:
    """Looks, refused requests and the count of tokens are no work."""
    settled(serving)
    names = tuple(name.removeprefix("vllm:") for name in probe.COUNTERS)
    before = samples(serving, names)
    assert len(before) == len(names)
    serving.ask("/health")
    serving.ask("/v1/models")
    serving.ask(COMPLETIONS, chat(max_tokens=0))
    serving.ask("/tokenize", {"model": "tiny", "prompt": "Hello"})
    assert samples(serving, names) == before


def test_more_requests_than_places(serving: Running) -> None:
    """Four are written at once; others wait, and the cache is in use meanwhile."""
    settled(serving)
    body = chat(max_tokens=400, ignore_eos=True)
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda: answers.append(serving.ask(COMPLETIONS, body).status_code))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    until(lambda: value(serving, "num_requests_waiting") == 2, "two requests that wait")
    assert value(serving, "num_requests_running") == 4
    first = samples(serving, LOAD)
    usage = value(serving, "kv_cache_usage_perc")
    assert usage == pytest.approx(4 * 4 / 1637)
    until(lambda: samples(serving, LOAD) != first, "tokens")
    for thread in threads:
        thread.join()
    assert answers == [200] * 6
    settled(serving)
    assert value(serving, "num_requests_waiting") == 0


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_client_that_leaves(serving: Running, stream: bool) -> None:
    """Its request ends long before it would, and is none that ended."""
    settled(serving)
    before = value(serving, "request_success_total")
    connection = Connection(serving.root)
    connection.connect()
    body = chat(max_tokens=4000, ignore_eos=True, stream=stream)
    connection.request("POST", COMPLETIONS, json.dumps(body), JSON)
    until(lambda: value(serving, "num_requests_running"), "the request")
    tokens = value(serving, "generation_tokens_total")
    connection.close()
    settled(serving)
    assert value(serving, "generation_tokens_total") - tokens < 3000
    assert value(serving, "request_success_total") == before
