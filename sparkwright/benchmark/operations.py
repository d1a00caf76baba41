"""Measure the speed of a replica."""

import json
from collections.abc import Generator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.benchmark.facts import BenchmarkResult
from sparkwright.benchmark.figures import Result
from sparkwright.benchmark.measured import check_answer, result_of
from sparkwright.benchmark.page import report
from sparkwright.common.command_line import next_line
from sparkwright.common.local_file import file_in, write_file
from sparkwright.common.operations import failing
from sparkwright.common.startup import KEPT
from sparkwright.engine.engine import EngineState, problem
from sparkwright.engine.facts import Engines
from sparkwright.jobs.facts import JobState
from sparkwright.jobs.operations import follow, put_manifest, reason, start
from sparkwright.recipe.workloads import Workload, order, passages
from sparkwright.release.release import Release

JOB = "benchmark"
# In the project that pyinfra runs in.
RESULTS = Path("benchmarks")


@operation()
def benchmark(
    release: Release, replica: str, hardware: str, workloads: Sequence[Workload]
) -> Generator[PyinfraCommand]:
    """Measure a replica from its head, and write its figures as JSON and as a page.

    A unit on the Spark measures, and goes on without a connection. A run that finds it at the same
    work follows it; a benchmark of other workloads is ended first.
    """
    if release.recipe.answers != "chat":
        yield failing(
            f"There is nothing to measure: {release.recipe.name} answers "
            f"{release.recipe.answers}, and all workloads are of engines that chat."
        )
        return
    model = release.recipe.served_names[0]
    state = host.get_fact(Engines, root=release.place, release=release.id, model=model)
    if why := _not_serving(state, release):
        yield failing(
            f"There is nothing to measure: {why}. `{next_line('apply')}` has it "
            f"serve, `{next_line('doctor')}` names what ails it."
        )
        return
    folder = release.recipe.checkpoints["model"].folder
    orders = {
        "replica": replica,
        "recipe": release.recipe.name,
        "release": release.id,
        "vllm": release.recipe.vllm,
        "model": model,
        "hardware": hardware,
        "sparks": len(release.ranks.sparks),
        "place": release.place,
        "tokenizer": f"/models/{folder}",
        "passages": passages(),
        "start": KEPT,
        "workloads": [order(workload) for workload in workloads],
    }
    last: dict[str, JobState] = {}
    yield from put_manifest(release.root, JOB, JOB, json.dumps(orders) + "\n")
    yield start(JOB)
    yield follow(release.root, [JOB], last)
    answer = host.get_fact(BenchmarkResult, root=release.root)
    names = [workload.name for workload in workloads]
    if answer and (problem := check_answer(answer, orders, names)):
        yield failing(f"{release.root}/benchmarks/latest.json is no answer to this run: {problem}")
        return
    if answer:
        yield FunctionCommand(_keep, (replica, result_of(answer), release.recipe.expected), {})
    if not answer or answer.given_up:
        yield failing(reason(JOB, last[JOB]))


def _not_serving(state: EngineState, release: Release) -> str | None:
    """Return why the release does not serve; None when it does."""
    if state.current != release.id:
        return f"found {state.current or 'no release'}; expected {release.id}, by the inventory"
    unit = state.units.get(release.id)
    if unit is None or unit.active != "active":
        return f"vllm@{release.id} is {unit.active if unit else 'not there'}"
    return problem(state, [*release.recipe.models])


def _keep(
    state: State,
    host: Host,
    replica: str,
    result: Result,
    expected: Mapping[str, Mapping[str, float]],
) -> None:
    """Write a result and its page, and show its table."""
    stem = f"{replica}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    page = file_in(RESULTS, f"{stem}.html")
    benchmark_report = report(result, expected)
    write_file(file_in(RESULTS, f"{stem}.json"), json.dumps(result) + "\n")
    write_file(page, benchmark_report.page)
    for line in benchmark_report.table:
        host.log(line)
    if sum(result["before"].values()):
        host.log(f"Others were at work when it began: {result['before']}. Figures are lower then.")
    host.log(f"The page: {page}")
