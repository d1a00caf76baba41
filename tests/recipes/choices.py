"""The recipe to choose for a need: the one source of the tables in README.md and docs/recipes.md.

What a recipe of ours says, or its plan, is read from it. Of a recipe that others publish stands
here what was read of it on 2026-11-23, and a file of the same form with the options that matter:
the importer takes it, its `trusts` are in the table, and its vLLM judges it
(tests/recipes/test_choices.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sparkwright.common import yaml
from sparkwright.common.hardware import GIB, HARDWARE
from sparkwright.declared.recipe.imports import trusts
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.plan.memory.known_checkpoints import nominal_load
from sparkwright.plan.memory.plan import plan_memory
from tests.published import published

# The place of what README.md does not have.
_NOWHERE = "docs/recipes.md alone"


@dataclass(frozen=True)
class Published:
    """A recipe that others publish.

    Attributes:
        source: As `sparkwright recipes import` names it.
        name: Of the recipe there.
        commit: At which it was read; the date is the commit's.
        download: Of its weights, with the source of the figure; empty: not published.
        model: The repository on the hub.
        options: Those that need trust or a certain vLLM, or decide memory.
        variables: Those that need trust.
        judge: The release of vLLM that judges it.
        fork: What only the image's own vLLM knows.
    """

    source: str
    name: str
    commit: str
    download: str
    model: str
    image: str
    options: str
    judge: str
    variables: tuple[str, ...] = ()
    fork: tuple[str, ...] = ()

    def text(self, sparks: int) -> str:
        """Return a file of the form."""
        variables = "".join(f'  {name}: "1"\n' for name in self.variables)
        env = f"env:\n{variables}" if variables else ""
        nodes = "cluster_only: true" if sparks > 1 else "max_nodes: 1"
        return (
            f'recipe_version: "2"\nmodel: {self.model}\ncontainer: {self.image}\n{nodes}\n'
            f"defaults: {{tensor_parallel: {sparks}}}\n{env}command: |\n"
            f"  vllm serve {self.model} --tensor-parallel-size {sparks} {self.options}\n"
        )


@dataclass(frozen=True)
class Choice:
    """A line of the tables.

    Attributes:
        need: What somebody wants it for.
        take: The name of our recipe, or another's.
        figure: Tokens/s of one answer, and whose they are.
        know: What to know before.
        sparks: How many it is for.
        place: The line of README.md that has it; empty: that of its number of Sparks.
        trusts: Where the words are too many for a table.
    """

    need: str
    take: str | Published
    figure: str
    know: str = ""
    sparks: int = 1
    place: str = ""
    trusts: str = ""


def _choice(data: dict[str, Any]) -> Choice:
    take = data["take"]
    if not isinstance(take, str):
        lists = {name: tuple(take.get(name, ())) for name in ("variables", "fork")}
        take = Published(**{**take, **lists})
    return Choice(**{**data, "take": take})


_FILE = Path(__file__).with_name("choices.yaml")
CHOICES = tuple(map(_choice, yaml.load(_FILE)["choices"]))


@cache
def recipe_of(choice: Choice) -> Recipe:
    """Return the recipe, as it is for the number of Sparks; another's as the importer reads it.

    Raises:
        PlanError: The importer refuses it.
    """
    if isinstance(choice.take, str):
        return load_recipe(choice.take).for_sparks(choice.sparks)
    with TemporaryDirectory() as folder:
        file = Path(folder, "recipe.yaml")
        file.write_text(choice.take.text(choice.sparks))
        return published(file).recipe


def tables() -> str:
    """Return the Markdown of docs/recipes.md."""
    head = ("for", "take", "download", "memory of each", "`trusts`", "tokens/s", "and know")
    return "\n\n".join(
        f"**{count}**\n\n{_table(head, (_row(each) for each in CHOICES if each.sparks == sparks))}"
        for sparks, count in ((1, "One Spark"), (2, "Two Sparks"))
    )


def short_table() -> str:
    """Return the Markdown of README.md: a line for each place."""
    places: dict[str, list[str]] = {}
    for choice in (each for each in CHOICES if each.place != _NOWHERE):
        place = choice.place or ("one Spark" if choice.sparks == 1 else "two Sparks")
        if isinstance(choice.take, str):
            taken = f"`{choice.take}` for {choice.need}"
        else:
            place, taken = f"{place}, by `sparkwright recipes import`", choice.need
        figure = choice.figure.partition(",")[0]
        places.setdefault(place, []).append(taken + (f" ({figure})" if figure != "?" else ""))
    return _table(("on", "take"), ((place, "; ".join(taken)) for place, taken in places.items()))


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ("---",) * len(head), *rows))


def _row(choice: Choice) -> tuple[str, ...]:
    return (
        choice.need,
        _take(choice),
        _download(choice),
        _memory(choice),
        choice.trusts or ", ".join(f"`{word}`" for word in trusts(recipe_of(choice))) or "none",
        choice.figure,
        "; ".join(filter(None, (choice.know, _read(choice)))),
    )


def _read(choice: Choice) -> str:
    """Say what was tried of another's recipe."""
    if isinstance(choice.take, str):
        return ""
    return f"at {choice.take.commit}, by vLLM {choice.take.judge}"


def _take(choice: Choice) -> str:
    if isinstance(choice.take, str):
        return f"`{choice.take}`"
    return f"`sparkwright recipes import {choice.take.source} {choice.take.name}`"


def _download(choice: Choice) -> str:
    if not isinstance(choice.take, str):
        return choice.take.download or "?"
    load = nominal_load(recipe_of(choice), choice.sparks)
    return f"{sum(each.size for each in load.checkpoints.values()) / 1e9:.0f} GB"


def _memory(choice: Choice) -> str:
    """What the engine takes by our plan; of others' recipes, the share that they ask for."""
    recipe = recipe_of(choice)
    hardware = HARDWARE[recipe.hardware[0]]
    if not isinstance(choice.take, str):
        share = recipe.options.gpu_memory_utilization
        return f"{share * hardware.total_gib:.0f} GiB" if share else "?"
    load = nominal_load(recipe, choice.sparks)
    return f"{plan_memory(load, int(hardware.total_gib * GIB), True).engine / GIB:.0f} GiB"
