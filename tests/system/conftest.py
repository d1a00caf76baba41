"""The product on virtual Sparks whose engine is the stand-in for vLLM, or vLLM by --engine vllm."""

import pytest

from tests.driver.fixtures import (  # noqa: F401
    boot,
    delivered,
    machine,
    no_faults,
    pair,
    pytest_runtest_makereport,
    served,
    serving,
    spark,
    start,
    three,
    with_standbys,
)
from tests.lab.state import Engine


@pytest.fixture(scope="session")
def engine(request: pytest.FixtureRequest) -> Engine:
    """The engine that the lab's registry serves."""
    chosen: Engine = request.config.getoption("engine")
    return chosen
