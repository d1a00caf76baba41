"""The report for an issue: one Markdown text, which an owner can publish as it is."""

import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

import sparkwright
from sparkwright.causes.cause import EVIDENCE, Diagnosis
from sparkwright.common.terminal import plain
from sparkwright.doctor.checkup import Checkup
from sparkwright.doctor.redaction import Redactor
from sparkwright.doctor.report import fails
from sparkwright.doctor.site_names import is_shipped
from sparkwright.recipe.recipe import Recipe
from sparkwright.recipe.values import ImageMods

# The last lines of a log that are shown, and the characters of a line: a reader of an issue has no
# use for more.
LINES, _WIDTH = 30, 400


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


def issue_report(
    sparks: Mapping[str, Examined], numbers: Mapping[str, str], redact: Redactor
) -> str:
    """Return the report.

    Args:
        sparks: by their names in the inventory.
        numbers: what to call each Spark of the inventory.
        redact: replaces the names of the site, and whatever else is private.
    """
    lines = [
        "# What the doctor found",
        "",
        "Without addresses, names of hosts and users, keys and serial numbers. Look through it "
        "before you publish it.",
        "",
        *_table(_versions(len(sparks), len(numbers)), redact),
    ]
    for name in sorted(sparks, key=list(numbers).index):
        lines += ["", f"## {numbers[name]}", "", *_spark(sparks[name], redact)]
    return "\n".join([*lines, ""])


def _versions(examined: int, sparks: int) -> dict[str, str]:
    return {
        "Sparkwright": sparkwright.__version__,
        "pyinfra": version("pyinfra"),
        "Python": platform.python_version(),
        "this machine": f"{platform.system()} {platform.release()} {platform.machine()}",
        "Sparks": f"{examined} of {sparks} in the inventory",
    }


def _spark(spark: Examined, redact: Redactor) -> Iterator[str]:
    checkup = spark.checkup
    if checkup is None:
        yield from _table(_served(spark), redact)
        yield from ("", "It could not be read; the run said why.")
        return
    system, unit = checkup.system, checkup.unit
    state = f"{unit.active}, restarts: {unit.restarts}. {unit.status}" if unit else "absent"
    facts = {
        "hardware": f"{spark.hardware} ({system.product})",
        "system": " · DGX OS ".join(filter(None, (system.name, system.dgx_os))),
        "firmware": system.firmware,
        "kernel": checkup.kernel,
        "driver": checkup.driver or "none is loaded",
        "Docker": checkup.docker or "gives no answer",
        **_served(spark),
        "engine": state if checkup.release else "",
    }
    yield from _table(facts, redact)
    yield from ("", "### Causes", "")
    for each in spark.diagnoses:
        yield f"* **{each.name}**: {_text(each.cause, redact)}"
        yield f"  * seen: {_code(_whole(each.evidence), redact)}"
        yield f"  * remedy: {_text(each.remedy, redact)}"
    if not spark.diagnoses:
        yield "None."
    if fails(checkup):
        yield from _log("The engine's log", checkup.log, redact)
    if checkup.failed:
        yield from _log(
            "The log of the release that did not come to serve", checkup.failed.log, redact
        )


def _served(spark: Examined) -> dict[str, str]:
    recipe = spark.recipe
    if recipe is None or spark.recipe_name is None:
        return {"recipe": "none: it is idle"}
    shipped = is_shipped(spark.recipe_name)
    rank = f", rank {spark.rank} of {spark.sparks}" if spark.sparks > 1 else ""
    return {
        "recipe": f"{recipe.name if shipped else 'own recipe'}{rank}",
        "vLLM": recipe.vllm,
        "image": recipe.base_image if shipped else "",
        "mods": str(len(recipe.image.mods)) if isinstance(recipe.image, ImageMods) else "",
    }


def _table(facts: Mapping[str, str], redact: Redactor) -> Iterator[str]:
    yield from ("| | |", "|---|---|")
    for name, value in facts.items():
        if value:
            yield f"| {name} | {_code(value, redact)} |"


def _log(title: str, log: Sequence[str], redact: Redactor) -> Iterator[str]:
    # As one text: a key may have several lines.
    lines = redact("\n".join(plain(line) for line in log)).split("\n")[-LINES:]
    shown = (plain(line, _WIDTH).replace("```", "'''") for line in lines)
    yield from ("", f"### {title}, last lines", "", "```text", *shown, "```")


def _whole(evidence: str) -> str:
    """Return evidence without the word at its end, if it was cut there: half an address is one."""
    return evidence if len(evidence) < EVIDENCE else re.sub(r"\S{1,100}$", "…", evidence)


def _text(text: str, redact: Redactor) -> str:
    """Return prose of ours."""
    return redact(plain(text))


def _code(text: str, redact: Redactor) -> str:
    """Return foreign text as code, which shows no link, mention or picture."""
    return f"`{redact(plain(text)).replace('`', chr(39)).replace('|', '¦')}`"
