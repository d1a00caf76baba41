"""The benchmark on two Sparks that serve one model; tests/acceptance/test_one.py has vLLM's own.

The tests build on one another, in order.
"""

from tests.driver.benchmark import BENCHMARK, MEASURING, added, check_short, measured, tools
from tests.driver.pairs import Pair
from tests.driver.product import killed_at, pyinfra
from tests.driver.sparks import eventually

# As many starts of the unit as the journal knows.
STARTS = "sudo journalctl --no-pager -o cat -u benchmark | grep -c '^Started '"


def test_an_unknown_workload(serving: Pair) -> None:
    run = pyinfra(BENCHMARK, "--data", "workloads=shrot")
    run.refused("--data workloads: found 'shrot'; did you mean 'short'?")


def test_a_killed_run_is_joined_again(serving: Pair) -> None:
    """The Spark goes on measuring, the next run brings the figures; the container is as it was."""

    def signal(name: str) -> None:
        serving.head.run(f"sudo systemctl kill --signal={name} benchmark")

    before = added(serving.head)
    workloads = "short,concurrent-4,mix-long"
    killed_at(MEASURING, BENCHMARK, "--data", f"workloads={workloads}")
    eventually(lambda: tools(serving.head) == 1, "the container of the benchmark's tool")
    # It cannot be done before the next run is there.
    signal("STOP")
    starts = serving.head.run(STARTS).stdout
    result = measured(workloads, meanwhile=lambda: signal("CONT"))
    assert serving.head.run(STARTS).stdout == starts
    check_short(result)
    _, four, long = result["workloads"]
    assert long["skipped"].endswith("max-model-len is 4,096")
    # What the virtual Spark's nvidia-smi says.
    assert four["gpu"] == [208, 3.64, 45]
    assert added(serving.head) == before
    assert tools(serving.head) == 0


def test_an_interrupted_one_leaves_nothing(serving: Pair) -> None:
    before = added(serving.head)
    killed_at(MEASURING, BENCHMARK, "--data", "workloads=concurrent-1")
    eventually(lambda: tools(serving.head) == 1, "the container of the benchmark's tool")
    serving.head.run("sudo systemctl stop benchmark")
    eventually(lambda: tools(serving.head) == 0, "that container to end")
    assert added(serving.head) == before


def test_nothing_serves(serving: Pair) -> None:
    unit = serving.unit().removesuffix(".service")
    serving.head.run(f"sudo systemctl stop {unit}")
    run = pyinfra(BENCHMARK, "--data", "workloads=short")
    why = f"There is nothing to measure: {unit} is inactive"
    run.fails(why, "deploys/doctor.py` names what ails it")
