"""The recipe to choose for a need: the one source of the tables in README.md and docs/recipes.md.

What a recipe of ours says, or its plan, is read from it. Of a recipe that others publish stands
here what was read of it on 2026-11-23, and a file of the same form with the options that matter:
the importer takes it, its `trusts` are in the table, and its vLLM judges it
(tests/recipes/test_recipes.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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
    """A recipe that others publish, with the commit at which it was read.

    Attributes:
        download: Of its weights, with the source of the figure; empty: not published.
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
    variables: Sequence[str] = ()
    fork: Sequence[str] = ()

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
    return Choice(**{**data, "take": take if isinstance(take, str) else Published(**take)})


# The tables, by the number of Sparks.
_COUNTS = {1: "One", 2: "Two", 4: "Four"}
_FILE = Path(__file__).with_name("choices.yaml")
CHOICES = tuple(map(_choice, yaml.load(_FILE)["choices"]))


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
    parts = []
    for sparks, count in _COUNTS.items():
        rows = [_row(each) for each in CHOICES if each.sparks == sparks]
        parts.append(f"**{count} Spark{'s' * (sparks > 1)}**\n\n{markdown(head, rows)}")
    taken = [each.take for each in CHOICES if isinstance(each.take, Published)]
    read = dict.fromkeys(
        f"`{each.source}` at {each.commit} (options of vLLM {each.judge})" for each in taken
    )
    parts.append(f"Others' recipes were read at these commits: {', '.join(read)}.")
    return "\n\n".join(parts)


def short_table() -> str:
    """Return the Markdown of README.md: a line for each place."""
    places: dict[str, list[str]] = {}
    for choice in (each for each in CHOICES if each.place != _NOWHERE):
        count = f"{_COUNTS[choice.sparks].lower()} Spark{'s' * (choice.sparks > 1)}"
        place = choice.place or count
        if isinstance(choice.take, str):
            taken = f"`{choice.take}` for {choice.need}"
        else:
            place, taken = f"{place}, by `sparkwright recipes import`", choice.need
        figure = choice.figure.partition(",")[0]
        places.setdefault(place, []).append(taken + (f" ({figure})" if figure != "?" else ""))
    return markdown(("on", "take"), ((place, "; ".join(taken)) for place, taken in places.items()))


def markdown(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    first, *others = (f"| {' | '.join(line)} |" for line in (head, *rows))
    return "\n".join([first, f"|{'---|' * len(head)}", *others])


def _row(choice: Choice) -> tuple[str, ...]:
    recipe = recipe_of(choice)
    total, know = HARDWARE[recipe.hardware[0]].total_gib, choice.know
    if isinstance(choice.take, str):
        take = choice.take
        load = nominal_load(recipe, choice.sparks)
        download = f"{sum(each.size for each in load.checkpoints.values()) / 1e9:.0f} GB"
        memory = f"{plan_memory(load, HARDWARE[recipe.hardware[0]]).engine / GIB:.0f} GiB"
    else:
        take = f"sparkwright recipes import {choice.take.source} {choice.take.name}"
        download = choice.take.download or "?"
        # The share that it asks for.
        share = recipe.options.gpu_memory_utilization
        memory = f"{share * total:.0f} GiB" if share else "?"
    words = choice.trusts or ", ".join(f"`{word}`" for word in trusts(recipe)) or "none"
    return (choice.need, f"`{take}`", download, memory, words, choice.figure, know)
