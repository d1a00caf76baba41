"""The benchmark: real `vllm bench serve` against real vLLM on a virtual Spark.

The tests of this module build on one another, in order.
"""

import json
import time

import pytest

from deploys.plan.figures import figures
from tests.e2e.conftest import DEPLOY, PROJECT, killed_at, pyinfra
from tests.e2e.declared import replica
from tests.e2e.sparks import current

BENCHMARK = "deploys/benchmark.py"
HERE = ("--limit", "spark1")
RESULTS = PROJECT / "benchmarks"
STATE = "systemctl show -P ActiveState benchmark"
# As many starts of the unit as the journal knows.
STARTS = "sudo journalctl --no-pager -o cat -u benchmark | grep -c '^Started '"
TOOLS = "sudo docker top $(sudo docker ps -q -f name=vllm-) -eo pid,args | grep -c memfd_create"
# The engine itself writes bytecode of what it imports late.
FILES = "sudo docker diff $(sudo docker ps -q -f name=vllm-) | grep ^A | grep -v pycache | sort"


@pytest.fixture(scope="module", autouse=True)
def spark(pair):
    """A Spark that serves alone; what was measured before is out of the way."""
    before = set(RESULTS.glob("lab1-*"))
    with replica(sparks=["spark1"]):
        pyinfra(DEPLOY).succeeded()
        yield pair.head
    for path in set(RESULTS.glob("lab1-*")) - before:
        path.unlink()


def measured(workloads: str) -> tuple[dict, str]:
    """Run the benchmark; return its result and its page."""
    before = set(RESULTS.glob("lab1-*"))
    run = pyinfra(BENCHMARK, *HERE, "--data", f"workloads={workloads}").succeeded()
    new = sorted(set(RESULTS.glob("lab1-*")) - before)
    assert [path.suffix for path in new] == [".html", ".json"], run.output
    return json.loads(new[1].read_text()), new[0].read_text()


def test_an_unknown_workload_is_refused(spark):
    run = pyinfra(BENCHMARK, *HERE, "--data", "workloads=shrot")
    assert run.status == 1
    assert "--data workloads: found 'shrot'; expected one of" in run.output
    assert "did you mean 'short'?" in run.output
    assert spark.run("ls /opt/qwen36/benchmarks", check=False).returncode


def test_figures_and_a_page(spark):
    files = spark.run(FILES, check=False).stdout
    result, page = measured("short,concurrent-4,mix-long")
    short, four, long = result["workloads"]
    assert (result["model"], result["recipe"], result["vllm"]) == ("tiny", "lab-tiny", "0.32.0")
    assert long["skipped"].endswith("max-model-len is 4,096")
    assert [len(run["ttft_ms"]) for run in short["runs"]] == [4]
    assert [run["output_tokens"] for run in four["runs"]] == [[200] * 4] * 3
    found = figures(result)
    for name in ("short", "concurrent-4"):
        assert found[name]["errors"] == 0
        assert found[name]["tok_s"] > 0
        assert found[name]["ttft_ms"] > 0
    begun, ended = four["runs"][0]["started"], four["runs"][-1]["ended"]
    assert any(begun < when < ended for when, *_ in result["gpu"])
    # What the virtual Spark's nvidia-smi says.
    assert result["gpu"][0][1:] == [208, 3.64, 45]
    assert "<html" in page
    assert spark.run(FILES, check=False).stdout == files
    assert spark.run(TOOLS, check=False).stdout.strip() == "0"


def test_a_killed_run_is_joined_again(spark):
    killed_at("measuring, ", BENCHMARK, *HERE, "--data", "workloads=prose,short")
    assert spark.run(STATE).stdout.strip() == "active"
    starts = spark.run(STARTS).stdout
    result, _ = measured("prose,short")
    assert [each["name"] for each in result["workloads"]] == ["prose", "short"]
    assert spark.run(STARTS).stdout == starts


def test_an_interrupted_benchmark_leaves_nothing(spark):
    killed_at("measuring, ", BENCHMARK, *HERE, "--data", "workloads=concurrent-128")
    deadline = time.monotonic() + 30
    while spark.run(TOOLS, check=False).stdout.strip() != "1":
        assert time.monotonic() < deadline
    spark.run("sudo systemctl stop benchmark")
    deadline = time.monotonic() + 30
    while spark.run(TOOLS, check=False).stdout.strip() != "0":
        assert time.monotonic() < deadline


def test_nothing_serves(spark):
    release = current(spark)
    spark.run(f"sudo systemctl stop vllm@{release}")
    run = pyinfra(BENCHMARK, *HERE, "--data", "workloads=short")
    assert run.status == 1
    assert f"There is nothing to measure: vllm@{release} is inactive" in run.output
    assert "deploys/doctor.py names what ails it" in run.output
