"""What runs print, as examples for pages: made by the code that prints it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from textwrap import TextWrapper
from types import SimpleNamespace
from typing import cast

from click.testing import CliRunner

from sparkwright.cli.main import cli
from sparkwright.common.hardware import HARDWARE
from sparkwright.declared.fleet.settings import Settings
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.machine.host.survey import Survey
from sparkwright.machine.preflight.requirements import Requirements, summary
from sparkwright.plan.memory.known_checkpoints import nominal_load
from sparkwright.plan.memory.plan import plan_memory
from sparkwright.plan.release.release import Release

_RECIPE = load_recipe("qwen3.6-35b-nvidia")
# Lines that are left out, and how the first screen folds those that are too long for it.
_MORE = "    …"
_COLUMNS, _INDENT = 100, "      "
# Bytes of an image, as AEON-7 has it.
IMAGE = 9_000_000_000


def weights(recipe: str) -> int:
    load = nominal_load(load_recipe(recipe).for_sparks(1), 1)
    return sum(each.size for each in load.checkpoints.values())


_WEIGHTS, _IMAGE, _FREE = weights(_RECIPE.name), IMAGE, 3_500_000_000_000


# More context than the memory share of the recipe holds.
_GREEDY = """extends: qwen3.5-122b-nvidia
description: Qwen3.5-122B-A10B with a million tokens.
source: Nobody.
proven: By nobody.
args: {max-model-len: 1000000, gpu-memory-utilization: 0.70}
"""


def first_screen() -> str:
    """Return what README.md shows: a refusal, a plan, and a release that takes itself back."""
    shown = "\n\n".join((refusal(), _planned(), taken_back()))
    whole = TextWrapper(_COLUMNS, subsequent_indent=_INDENT, break_on_hyphens=False)
    return _fence("\n".join(map(whole.fill, shown.splitlines())))


def refusal() -> str:
    """Return what `recipes check` says of a recipe that cannot fit."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "million.yaml")
        file.write_text(_GREEDY)
        said = CliRunner().invoke(cli, ["recipes", "check", str(file)])
    assert said.exit_code == 1, said.output
    return f"$ sparkwright recipes check million\n{said.output.splitlines()[-1]}"


def _planned() -> str:
    end = "Nothing was changed. To do it: sparkwright apply"
    lines = [f"    [spark-a] {line}" for line in _summary()]
    return "\n".join(["$ sparkwright plan", *lines, _MORE, end])


def taken_back() -> str:
    """Return the main lines of what docs/first-run.md has recorded of a release that fails."""
    page = (Path(__file__).parents[2] / "docs/first-run.md").read_text()
    command, *lines = page[page.index("$ sparkwright apply -y --limit") :].splitlines()
    said = [line for line in lines if re.search(r"switch: it starts|does not serve:|again;", line)]
    return "\n".join([command, said[0], _MORE, *said[1:3]])


def recorded(session: str) -> str:
    """Return what a person has typed and seen, as tests/system/test_person.py records it."""
    shown = session[session.index("$ sparkwright init") :].partition("$ sparkwright keys")[0]
    parts = re.split(r"^(?=\$ )", shown, flags=re.MULTILINE)
    kept = [_short(part.rstrip()) for part in parts if part and not part.startswith("$ git")]
    session = re.sub(r"\S*/(?=my-sparks\b)", "~/", "\n\n".join(kept))
    return _fence("\n".join(map(str.rstrip, session.splitlines())))


_FIRST, _SECOND = "    [spark-a]", "    [spark-b]"
# How a run begins, what it prints of each operation, most operations of a plan, how a run that
# failed is continued, what pyinfra says of any plan, and the thoughts of the stand-in.
_LONG = re.compile(
    r"(?<=\n)(?P<begin>--> Loading config\.\.\.\n).*?(?=--> Preparing)"
    r"|(?<=\n)(?P<run>--> Beginning operation run\.\.\.\n).*?"
    r"(?=--> Disconnecting|    \[[^\n]*switch: it starts beside)"
    r"|(?P<table>    Operation  [^\n]*\n(?:    [^\n]*\n){8}).*?(?=\n\n)"
    r"|(?<=\n)(?P<why>    \[spark-a\] Hint: [^\n]*\n).*?(?=\n--> Disconnecting)"
    r"|(?<=\n\n)(?P<note>)    Detected changes may not.*?(?=\n--> Disconnecting)",
    re.DOTALL,
)


def _short(part: str) -> str:
    # What both Sparks say alike is said once.
    lines = [line for line, _ in groupby(part.splitlines(keepends=True))]
    said = set(lines)
    part = "".join(
        line
        for line in lines
        if not line.startswith(_SECOND) or line.replace(_SECOND, _FIRST) not in said
    )
    part = re.sub(r'(?<="reasoning": ")[^"]*', "…", part)
    part = re.sub(r"(    \[spark-a\] (vllm@|Failed to start vllm@)[^\n]*\n)+", "    …\n", part)
    return _LONG.sub(lambda match: f"{match[match.lastgroup or 0]}    …\n", part)


def plan() -> str:
    """Return the summary of a plan."""
    return _fence("\n".join(_summary()))


def _summary() -> Iterable[str]:
    survey = SimpleNamespace(weights=0, image=None, root_free=_FREE, docker_free=_FREE, serves=None)
    spark, ports = HARDWARE["gb10"], (8000,)
    wanted = Requirements(spark, Settings(), None, None, "chat", None, _WEIGHTS, _IMAGE, 0, ports)
    memory = plan_memory(nominal_load(_RECIPE.for_sparks(1), 1), spark)
    release = SimpleNamespace(id=f"{_RECIPE.name}-1a2b3c4d", recipe=_RECIPE)
    return summary(cast(Release, release), cast(Survey, survey), wanted, memory)


def _fence(text: str) -> str:
    return f"```\n{text}\n```"
