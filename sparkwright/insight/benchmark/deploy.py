"""Does it deliver? Measures each replica from its head."""

import json
from collections.abc import Generator, Sequence
from datetime import UTC, datetime

from pyinfra import host
from pyinfra.api import FunctionCommand, Host, State, deploy, operation
from pyinfra.api.command import PyinfraCommand

from sparkwright.artifacts.jobs.deploy import follow, put_manifest, reason, start
from sparkwright.common.command_line import next_line
from sparkwright.common.local_file import file_in, write_file
from sparkwright.common.operations import failing
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.placed import folder
from sparkwright.common.render import unit_file
from sparkwright.declared.recipe.workloads import WORKLOADS, order, passages
from sparkwright.engine.state import EngineState, ask_release, problem
from sparkwright.insight.benchmark.measured import RESULTS, Answer, BenchmarkResult, check_answer
from sparkwright.insight.benchmark.verdict import report
from sparkwright.machine.host.operations.files import managed_files
from sparkwright.plan.release.container import CONTAINER_OPTIONS
from sparkwright.plan.release.programs import program_files
from sparkwright.plan.release.release import Release
from sparkwright.run.state import read_now
from sparkwright.run.target import Target, seats

JOB = "benchmark"


@deploy("Benchmark")
def apply() -> None:
    """Measure the workloads that `--data workloads=NAME,NAME` names; all without it."""
    for own in seats():
        if own.release is None or not own.is_head or not own.replica:
            continue
        root = own.release.root
        unit = unit_file(HOST_FILES / "insight" / "benchmark" / "benchmark.service", root=root)
        entries = [folder(root, "benchmarks"), *program_files(root), unit]
        managed_files(name="Programs of the benchmark", entries=entries)
        benchmark(name="Figures", own=own, workloads=own.options.workloads or [*WORKLOADS])


@operation()
def benchmark(own: Target, workloads: Sequence[str]) -> Generator[PyinfraCommand]:
    """Measure a replica from its head, and write its figures as JSON and as Markdown.

    A unit on the Spark measures, and goes on without a connection. A run that finds it at the same
    work follows it; a benchmark of other workloads is ended first.
    """
    release, replica = own.release, own.replica
    assert release is not None
    assert replica is not None
    recipe, model = release.recipe, release.recipe.served_names[0]
    state = read_now(host, ask_release(release))
    if why := _unmeasurable(state, release):
        yield failing(f"There is nothing to measure: {why}.")
        return
    orders = {
        "release": release.id,
        "model": model,
        "place": release.place,
        "options": CONTAINER_OPTIONS,
        "tokenizer": f"/models/{recipe.checkpoints['model'].folder}",
        "passages": passages(),
        "workloads": [order(WORKLOADS[name]) for name in workloads],
    }
    manifest = json.dumps(orders) + "\n"
    yield from put_manifest(release.root, JOB, JOB, manifest)
    yield start(JOB)
    last = yield from follow(release.root, [JOB])
    answer = read_now(host, BenchmarkResult.ask(root=release.root)).answer
    if answer and (wrong := check_answer(answer, manifest, workloads)):
        yield failing(f"{release.root}/benchmarks/latest.json is no answer to this run: {wrong}")
        return
    if answer:
        yield FunctionCommand(_keep, (replica, answer, release, own.hardware_class), {})
    if not answer or answer.given_up:
        yield failing(reason(JOB, last[JOB]))


def _unmeasurable(state: EngineState, release: Release) -> str | None:
    """Return why a release cannot be measured; None where it can."""
    if release.recipe.answers != "chat":
        return f"{release.recipe.name} answers {release.recipe.answers}; all workloads chat"
    unit = state.units.get(release.id)
    if state.current != release.id:
        why = f"found {state.current or 'no release'}; expected {release.id}, by the inventory"
    elif unit is None or unit.active != "active":
        why = f"vllm@{release.id} is {unit.active if unit else 'not there'}"
    elif found := problem(state, [*release.recipe.models]):
        why = found
    else:
        return None
    apply, doctor = next_line("apply"), next_line("doctor")
    return f"{why}. `{apply}` has it serve, `{doctor}` names what ails it"


def _keep(
    state: State, host: Host, replica: str, answer: Answer, release: Release, hardware: str
) -> None:
    """Write a result as JSON and Markdown, and show its table."""
    stem, sparks = f"{replica}-{datetime.now(UTC):%Y%m%d-%H%M%S}", len(release.ranks.sparks)
    about = f"{replica}: {release.id} with vLLM {release.recipe.vllm} on {sparks} x {hardware}"
    lines, page = report(answer, about, hardware, release.recipe.expected)
    recipe, figures = release.recipe, answer.figures
    known = {"about": about, "recipe": recipe.name, "vllm": recipe.vllm, "figures": figures}
    text = json.dumps({**known, "model": recipe.served_names[0], **answer.model_dump()})
    path = file_in(RESULTS, f"{stem}.md")
    write_file(file_in(RESULTS, f"{stem}.json"), text + "\n")
    write_file(path, "\n".join([*page, ""]))
    for line in lines:
        host.log(line)
    host.log(f"All figures: {path}")
