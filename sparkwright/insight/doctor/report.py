"""The doctor's reports: lines for people, and a Markdown text for an issue."""

import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version

import sparkwright
from sparkwright.common.command_line import next_line
from sparkwright.common.hardware import GIB
from sparkwright.declared.recipe.loader import is_ours
from sparkwright.engine.state import phase
from sparkwright.insight.doctor.checkup import Checkup
from sparkwright.network.fabric.state import FabricState
from sparkwright.plan.causes.log_causes import Diagnosis, from_log, table
from sparkwright.run.spark import SparkTarget

# Causes that are shown in full; of the others only the names.
SHOWN = 3
# Last lines of a log that shows no known cause.
_LAST = 5
# Words of error lines: Python's, vLLM's, our supervisor's.
_ERROR = ("Error", "ERROR", "error:", "CRITICAL", "engine ended", "failed")


def report(
    checkup: Checkup, diagnoses: Sequence[Diagnosis], recipe: str | None, on_demand: bool = False
) -> Iterator[tuple[str, str]]:
    """Yield the lines for people, each with its color; an idle Spark has no recipe."""
    _, free, available = checkup.memory
    disks = ", ".join(f"{size / GIB:.0f} GiB free" for size in checkup.free.values()) or "not told"
    gpu = "not told"
    if checkup.gpu and checkup.gpu.work:
        gpu = "{:.0f} MHz, {:.0f} W, {:.0f} % busy".format(*checkup.gpu.work)
    memory = f"{free / GIB:.1f} GiB free, {available / GIB:.1f} available"
    looked_at = f"{len(checkup.log)} lines of its journal, memory ({memory}), disks ({disks})"
    docker = checkup.docker or "(no answer)"
    yield f"looked at {looked_at}, Docker {docker}, GPU ({gpu}), clock, port", "white"
    for each in diagnoses[:SHOWN]:
        yield f"{'perhaps' if each.guess else 'cause'}: {each.cause} [{each.name}]", "red"
        yield f"  seen: {each.evidence}", "yellow"
        if checkup.down and each.evidence == checkup.down.said:
            yield from ((f"    {line}", "yellow") for line in checkup.down.lines)
        yield f"  remedy: {each.remedy}.", "green"
    if len(diagnoses) > SHOWN:
        yield f"and also: {', '.join(each.name for each in diagnoses[SHOWN:])}", "yellow"
    unit = checkup.unit
    # It should serve, and has ended, or was started again.
    fails = checkup.release is not None and (unit is None or unit.ended or unit.restarts > 0)
    if on_demand and (unit is None or unit.active == "inactive"):
        yield "requests start it: it is stopped, as it is not its turn", "white"
        fails = False
    if fails and not from_log(checkup.log):
        yield "its log shows no known cause; the last lines:", "red"
        errors = [line for line in checkup.log if any(word in line for word in _ERROR)]
        for line in (errors or checkup.log)[-_LAST:] or ["(none)"]:
            yield f"  {line}", "yellow"
        yield f"  all of them: journalctl -u vllm@{checkup.release}", "yellow"
    elif not diagnoses:
        yield f"no trouble found: {_state(checkup, recipe)}", "green"


def probed(name: str, *evidence: str, remedy: str = "") -> Diagnosis:
    """Return the diagnosis of a cause that a probe of the Spark has shown, and a further remedy."""
    cause = next(each for each in table("probes") if each.name == name)
    found = cause.diagnosis("; ".join(evidence))
    return replace(found, remedy=f"{found.remedy}. {remedy}" if remedy else found.remedy)


def state_of_link(spark: str, state: FabricState) -> Iterator[str]:
    """Yield the states of a Spark's interfaces to the others of its group."""
    for name, netdev in state.netdevs.items():
        yield f"{spark} {name}: {'link' if netdev.carrier else 'no link'}, MTU {netdev.mtu}"


def _state(checkup: Checkup, recipe: str | None) -> str:
    unit = checkup.unit
    if checkup.release is None and recipe:
        return f"{recipe} was not set up yet: `{next_line('apply')}` does it"
    if checkup.release is None:
        return "this Spark is idle, nothing is to serve on it"
    if unit is None:
        return f"vllm@{checkup.release} is absent"
    status = phase(checkup.log) if unit.starting else unit.status
    return f"vllm@{checkup.release} is {unit.active}{f' ({status})' if status else ''}"


# What versions are made of. A Spark may say anything.
_VERSION = re.compile(r"[\w .,+()~:/·-]{1,80}")


def heading(examined: int, total: int) -> list[str]:
    """Return the first lines of a report on so many Sparks of all in the inventory."""
    versions = {
        "Sparkwright": sparkwright.__version__,
        "pyinfra": version("pyinfra"),
        "Python": platform.python_version(),
        "this machine": f"{platform.system()} {platform.release()} {platform.machine()}",
        "Sparks": f"{examined} of {total} in the inventory",
    }
    return ["# What the doctor found", "", *_table(versions)]


def section(
    name: str, own: SparkTarget, checkup: Checkup | None, diagnoses: Sequence[Diagnosis]
) -> list[str]:
    """Return the lines about one Spark; without a checkup, that it could not be read."""
    lines = ["", f"## {name}", "", *_table(_served(own))]
    if checkup is None:
        return [*lines, "", "It could not be read; the run said why."]
    unit, (total, _, available) = checkup.unit, checkup.memory
    figures = {
        "hardware": own.hardware_class,
        **checkup.system,
        "kernel": checkup.kernel.release,
        "driver": checkup.driver or "none is loaded",
        "Docker": checkup.docker or "gives no answer",
        "engine": f"{unit.active}, restarts: {unit.restarts}" if unit else "absent",
        "hard shutdowns within a day": str(checkup.downs),
        "memory": f"{total / GIB:.1f} GiB, {available / GIB:.1f} available",
    }
    causes = [f"* {each.name}" for each in diagnoses] or ["None."]
    return [*lines, *list(_table(figures))[2:], "", "### Causes", "", *causes]


def _served(own: SparkTarget) -> dict[str, str]:
    recipe, name = own.recipe, own.recipe_name
    if recipe is None or name is None:
        return {"recipe": "none: it is idle"}
    shown = recipe.name if is_ours(name) else "own recipe"
    rank = f", rank {own.rank} of {len(own.ranks)}" if len(own.ranks) > 1 else ""
    return {"recipe": f"{shown}{rank}", "vLLM": recipe.vllm}


def _table(facts: Mapping[str, str]) -> Iterator[str]:
    yield from ("| | |", "|---|---|")
    for name, value in facts.items():
        if not _VERSION.fullmatch(name):
            continue
        shown = f"`{value}`" if _VERSION.fullmatch(value) else "not shown: it is no version"
        yield f"| {name} | {shown} |"
