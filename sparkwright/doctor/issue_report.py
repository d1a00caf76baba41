"""The report for an issue: versions, causes and figures of each Spark, as one Markdown text.

It has no log line, address or name, and so needs no redaction.
"""

import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import sparkwright
from sparkwright.causes.cause import Diagnosis
from sparkwright.doctor.checkup import Checkup
from sparkwright.recipe.loader import RECIPES, is_path, recipe_files
from sparkwright.recipe.recipe import Recipe
from sparkwright.recipe.values import ImageMods

# What versions are made of. A Spark may say anything.
_VERSION = re.compile(r"[\w .,+()~:/·-]{1,80}")


@dataclass(frozen=True)
class Examined:
    """One Spark as the doctor found it.

    Attributes:
        hardware: its class.
        recipe: what it is to serve; None for an idle Spark.
        recipe_name: the name of that recipe in the inventory.
        rank, sparks: its place in its replica, and their number.
        checkup: None if it could not be read.
        diagnoses: the one to begin with first.
    """

    hardware: str
    recipe: Recipe | None
    recipe_name: str | None
    rank: int | None
    sparks: int
    checkup: Checkup | None
    diagnoses: Sequence[Diagnosis] = ()


def issue_report(sparks: Mapping[str, Examined], total: int) -> str:
    """Return the report.

    Args:
        sparks: those that were examined, by what the report calls them.
        total: the number of Sparks in the inventory.
    """
    lines = ["# What the doctor found", "", *_table(_versions(len(sparks), total))]
    for name, spark in sparks.items():
        lines += ["", f"## {name}", "", *_spark(spark)]
    return "\n".join([*lines, ""])


def _versions(examined: int, total: int) -> dict[str, str]:
    return {
        "Sparkwright": sparkwright.__version__,
        "pyinfra": version("pyinfra"),
        "Python": platform.python_version(),
        "this machine": f"{platform.system()} {platform.release()} {platform.machine()}",
        "Sparks": f"{examined} of {total} in the inventory",
    }


def _spark(spark: Examined) -> Iterator[str]:
    checkup = spark.checkup
    if checkup is None:
        yield from _table(_served(spark))
        yield from ("", "It could not be read; the run said why.")
        return
    system, unit = checkup.system, checkup.unit
    total, _, available = (size / (1 << 30) for size in checkup.memory)
    yield from _table(
        {
            "hardware": f"{spark.hardware} ({system.product})",
            "system": " · DGX OS ".join(filter(None, (system.name, system.dgx_os))),
            "firmware": system.firmware,
            "kernel": checkup.kernel,
            "driver": checkup.driver or "none is loaded",
            "Docker": checkup.docker or "gives no answer",
            **_served(spark),
            "engine": f"{unit.active}, restarts: {unit.restarts}" if unit else "absent",
            "hard shutdowns within a day": str(checkup.downs),
            "memory": f"{total:.1f} GiB, {available:.1f} available",
        }
    )
    yield from ("", "### Causes", "")
    yield from (f"* {each.name}" for each in spark.diagnoses)
    if not spark.diagnoses:
        yield "None."


def _served(spark: Examined) -> dict[str, str]:
    recipe = spark.recipe
    if recipe is None or spark.recipe_name is None:
        return {"recipe": "none: it is idle"}
    shipped = _is_shipped(spark.recipe_name)
    rank = f", rank {spark.rank} of {spark.sparks}" if spark.sparks > 1 else ""
    return {
        "recipe": f"{recipe.name if shipped else 'own recipe'}{rank}",
        "vLLM": recipe.vllm,
        "mods": str(len(recipe.image.mods)) if isinstance(recipe.image, ImageMods) else "",
    }


def _is_shipped(recipe: str) -> bool:
    """Tell whether a recipe is one of Sparkwright's own, whose name everybody may know."""
    file = None if is_path(recipe) else recipe_files().get(recipe)
    return file is not None and file.parent == RECIPES


def _table(facts: Mapping[str, str]) -> Iterator[str]:
    yield from ("| | |", "|---|---|")
    for name, value in facts.items():
        if value:
            shown = f"`{value}`" if _VERSION.fullmatch(value) else "not shown: it is no version"
            yield f"| {name} | {shown} |"
