"""The benchmark: real `vllm bench serve` against real vLLM on a virtual Spark.

No tier runs it: it takes five minutes, and tests/acceptance/test_one.py has a short one.
python -m tests.lab.shard mine -- python -m pytest -m campaign tests/acceptance/test_benchmark.py
"""

import pytest

from deploys.plan.figures import figures
from tests.driver.benchmark import BENCHMARK, check_short, measured
from tests.driver.product import killed_at
from tests.driver.sparks import eventually
from tests.lab.spark import Handle

# A Spark that serves.
pytestmark = [pytest.mark.campaign, pytest.mark.usefixtures("served")]

STATE = "systemctl show -P ActiveState benchmark"
# As many starts of the unit as the journal knows.
STARTS = "sudo journalctl --no-pager -o cat -u benchmark | grep -c '^Started '"


def container(spark: Handle) -> str:
    """Return the name of the engine's container."""
    (name,) = spark.run("sudo docker ps --format '{{.Names}}' -f name=vllm-").stdout.split()
    return name


def files(spark: Handle) -> set[str]:
    """Return the files that the engine's container has beyond its image's.

    The engine itself writes bytecode of what it imports late.
    """
    changes = spark.run(f"sudo docker diff {container(spark)}").stdout.splitlines()
    return {line for line in changes if line.startswith("A ") and "pycache" not in line}


def tools(spark: Handle) -> int:
    """Return how many of the benchmark's programs run in the engine's container."""
    processes = spark.run(f"sudo docker top {container(spark)} -eo pid,args").stdout
    assert "VLLM::EngineCor" in processes
    return processes.count("memfd_create")


def test_figures_and_a_page(spark: Handle) -> None:
    before = files(spark)
    result = measured("short,concurrent-4,mix-long")
    check_short(result)
    _, four, long = result["workloads"]
    assert long["skipped"].endswith("max-model-len is 4,096")
    begun, ended = four["runs"][0]["started"], four["runs"][-1]["ended"]
    assert any(begun < when < ended for when, *_ in result["gpu"])
    # What the virtual Spark's nvidia-smi says.
    assert result["gpu"][0][1:] == [208, 3.64, 45]
    assert files(spark) == before
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


def test_a_killed_run_is_joined_again(spark: Handle) -> None:
    killed_at("measuring, ", BENCHMARK, "--data", "workloads=prose,short")
    assert spark.run(STATE).stdout.strip() == "active"
    starts = spark.run(STARTS).stdout
    result = measured("prose,short")
    assert [each["name"] for each in result["workloads"]] == ["prose", "short"]
    assert spark.run(STARTS).stdout == starts


def test_an_interrupted_benchmark_leaves_nothing(spark: Handle) -> None:
    killed_at("measuring, ", BENCHMARK, "--data", "workloads=concurrent-128")
    eventually(lambda: tools(spark) == 1, "the benchmark's program in the container")
    spark.run("sudo systemctl stop benchmark")
    eventually(lambda: tools(spark) == 0, "the benchmark's program to end")
