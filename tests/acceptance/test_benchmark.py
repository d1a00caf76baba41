"""The benchmark: real `vllm bench serve` against real vLLM on a virtual Spark.

No tier runs it, since it takes minutes; `make long` does. tests/acceptance/test_one.py has a short
one, tests/system/test_benchmark.py what is ours alone.
"""

import pytest

from sparkwright.benchmark.figures import figures
from tests.driver.benchmark import added, check_short, measured, tools
from tests.lab.spark import Handle

# A Spark that serves.
pytestmark = [pytest.mark.campaign, pytest.mark.usefixtures("served")]


def test_the_container_stays_as_it_is(spark: Handle) -> None:
    before = added(spark)
    check_short(measured("short,concurrent-4"))
    assert added(spark) == before
    assert tools(spark) == 0


def test_a_mix_goes_by_time(spark: Handle) -> None:
    """Real `vllm bench serve` asks nothing more once the time is up, and counts what it asked."""
    result = measured("mix-short")
    (run,) = result["workloads"][0]["runs"]
    answered, seconds = len(run["ttft_ms"]), run["ended"] - run["started"]
    assert run["errors"] == []
    assert answered
    # What is under way when the time is up is answered.
    assert seconds >= 90 or answered == 400
    assert figures(result)["mix-short"]["total_tok_s"] == sum(run["output_tokens"]) / seconds
