"""The benchmark, run on a virtual Spark, and what a short one shows."""

import json
from typing import Any

from deploys.plan.figures import figures
from tests.driver.product import PROJECT, pyinfra

BENCHMARK = "deploys/benchmark.py"
_RESULTS = PROJECT / "benchmarks"


def measured(workloads: str) -> dict[str, Any]:
    """Run the benchmark; return its result, of which no file is left."""
    before = set(_RESULTS.glob("lab1-*"))
    run = pyinfra(BENCHMARK, "--data", f"workloads={workloads}").succeeded()
    new = sorted(set(_RESULTS.glob("lab1-*")) - before)
    texts = [path.read_text() for path in new]
    for path in new:
        path.unlink()
    assert [path.suffix for path in new] == [".html", ".json"], run.output
    page, text = texts
    assert "<html" in page
    result: dict[str, Any] = json.loads(text)
    return result


def check_short(result: dict[str, Any]) -> dict[str, dict[str, float]]:
    """See that `short` and `concurrent-4`, measured first, are whole; return all figures."""
    assert (result["model"], result["recipe"], result["vllm"]) == ("tiny", "lab-tiny", "0.32.0")
    short, four = result["workloads"][:2]
    assert [len(run["ttft_ms"]) for run in short["runs"]] == [4]
    assert [run["output_tokens"] for run in four["runs"]] == [[200] * 4] * 3
    found = figures(result)
    for name in ("short", "concurrent-4"):
        assert found[name]["errors"] == 0
        assert found[name]["tok_s"] > 0
        assert found[name]["ttft_ms"] > 0
    return found
