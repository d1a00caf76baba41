"""What the benchmark refuses on two Sparks that serve one model; tests/acceptance has what it does.

The tests build on one another, in order.
"""

from tests.driver.pairs import Pair
from tests.driver.product import pyinfra

BENCHMARK = "deploys/benchmark.py"


def test_an_unknown_workload(serving: Pair) -> None:
    run = pyinfra(BENCHMARK, "--data", "workloads=shrot")
    assert run.status == 1
    assert "--data workloads: found 'shrot'; expected one of" in run.output
    assert "did you mean 'short'?" in run.output
    assert run.changed == frozenset()


def test_nothing_serves(serving: Pair) -> None:
    unit = serving.unit().removesuffix(".service")
    serving.head.run(f"sudo systemctl stop {unit}")
    run = pyinfra(BENCHMARK, "--data", "workloads=short")
    assert run.status == 1
    assert f"There is nothing to measure: {unit} is inactive" in run.output
    assert "deploys/doctor.py names what ails it" in run.output
