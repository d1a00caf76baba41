"""The benchmark, run on a virtual Spark, and what a short one shows."""

import json
from collections.abc import Callable
from typing import Any

from host.insight.benchmark.measure import CONTAINER
from tests.clock import patience
from tests.driver.product import PROJECT, background
from tests.lab.spark import Handle

BENCHMARK = "deploys/benchmark.py"
# A run says so as soon as the Spark is at work, and from then on.
MEASURING = "measuring, "
_RESULTS = PROJECT / "benchmarks"


def measured(workloads: str, meanwhile: Callable[[], object] = int) -> dict[str, Any]:
    """Run the benchmark, and do something when the Spark measures; return the result."""
    before = set(_RESULTS.glob("lab1-*"))
    said = []
    with background(BENCHMARK, "--data", f"workloads={workloads}") as run:
        assert run.stdout
        for line in run.stdout:
            said.append(line)
            if MEASURING in line:
                meanwhile()
        assert run.wait(patience()) == 0, "".join(said)
    new = sorted(set(_RESULTS.glob("lab1-*")) - before)
    texts = [path.read_text() for path in new]
    for path in new:
        path.unlink()
    assert [path.suffix for path in new] == [".json", ".md"], "".join(said)
    text, page = texts
    assert "| workload | figure | measured | expected | verdict |" in page
    result: dict[str, Any] = json.loads(text)
    return result


def check_short(result: dict[str, Any]) -> dict[str, dict[str, float]]:
    """See that `short` and `concurrent-4`, measured first, are whole; return all figures."""
    assert (result["model"], result["recipe"], result["vllm"]) == ("tiny", "lab-tiny", "0.32.0")
    short, four = result["workloads"][:2]
    assert short["requests"] == 4
    assert (four["requests"], four["output_tokens"]) == (12, 12 * 200)
    found: dict[str, dict[str, float]] = result["figures"]
    for name in ("short", "concurrent-4"):
        assert found[name]["errors"] == 0
        assert found[name]["tok_s"] > 0
        assert found[name]["ttft_ms"] > 0
    return found


def added(spark: Handle) -> set[str]:
    """Return the files that the engine's container has beyond its image's, but for bytecode."""
    changes = spark.run(f"sudo docker diff {_container(spark)}").stdout.splitlines()
    return {line for line in changes if line.startswith("A ") and "pycache" not in line}


def tools(spark: Handle) -> int:
    return len(spark.run(f"sudo docker ps --all --quiet --filter name={CONTAINER}").stdout.split())


def _container(spark: Handle) -> str:
    (name,) = spark.run("sudo docker ps --format '{{.Names}}' -f name=vllm-").stdout.split()
    return name
