"""The benchmark: real `vllm bench serve` against real vLLM on a virtual Spark.

No tier runs it, since it takes minutes; `make long` does. tests/acceptance/test_one.py has a short
one, tests/system/test_benchmark.py what is ours alone.
"""

import pytest

from tests.driver.benchmark import added, check_short, measured, tools
from tests.lab.spark import Handle

# A Spark that serves.
pytestmark = [pytest.mark.campaign, pytest.mark.usefixtures("served")]


def test_the_container_stays_as_it_is(spark: Handle) -> None:
    before = added(spark)
    check_short(measured("short,concurrent-4"))
    assert added(spark) == before
    assert tools(spark) == 0
