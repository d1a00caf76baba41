"""The report for an issue: versions, causes and figures of each Spark, as one Markdown text.

It has no log line, address or name, and so needs no redaction.
"""

import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version

import sparkwright
from sparkwright.common.hardware import GIB
from sparkwright.declared.recipe.loader import RECIPES, is_path, recipe_files
from sparkwright.insight.doctor.checkup import Checkup
from sparkwright.plan.causes.log_causes import Diagnosis
from sparkwright.run.spark import SparkTarget

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
    file = None if is_path(name) else recipe_files().get(name)
    # Everybody may know the name of one of Sparkwright's own.
    shown = recipe.name if file and file.parent == RECIPES else "own recipe"
    rank = f", rank {own.rank} of {len(own.ranks)}" if len(own.ranks) > 1 else ""
    return {"recipe": f"{shown}{rank}", "vLLM": recipe.vllm}


def _table(facts: Mapping[str, str]) -> Iterator[str]:
    yield from ("| | |", "|---|---|")
    for name, value in facts.items():
        if not _VERSION.fullmatch(name):
            continue
        shown = f"`{value}`" if _VERSION.fullmatch(value) else "not shown: it is no version"
        yield f"| {name} | {shown} |"
