"""The product on virtual Sparks with real vLLM."""

import pytest

from tests.driver.fixtures import (  # noqa: F401
    machine,
    no_faults,
    pair,
    pytest_runtest_makereport,
    served,
    spark,
)
from tests.lab.state import Engine


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The engine that the lab's registry serves."""
    return "vllm"
