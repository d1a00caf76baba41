"""`sparkwright recipes`: what can be served, and whether it fits."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import click

from sparkwright.cli.run import PASSED_ON
from sparkwright.cli.site import enter_site
from sparkwright.recipe.imports import import_recipe, listing
from sparkwright.recipe.imports import show as shown_import
from sparkwright.recipe.loader import load_recipe, recipe_file, recipe_names
from sparkwright.recipe.recipe import Recipe
from sparkwright.recipe.trust import needs

_WIDTH = 80


@click.group()
def recipes() -> None:
    """What can be served: list, show, check, command, import, add.

    Beside the recipes that come with Sparkwright, a site has its own in
    files/recipes. RECIPE is a name, or the path of a file, or a published
    recipe: SOURCE:NAME@COMMIT.
    """
    # Where paths that the command names begin.
    click.get_current_context().obj = Path.cwd()
    # A site's own recipes are found from its folder; ours from anywhere.
    with suppress(click.ClickException):
        enter_site()


@recipes.command("list")
def list_() -> None:
    """List the recipes, and what each serves."""
    for name in recipe_names():
        recipe = load_recipe(name)
        if recipe.hardware != ["lab"]:
            click.echo("\n".join(_entry(recipe)))


def _entry(recipe: Recipe) -> Iterable[str]:
    sparks = " or ".join(map(str, recipe.sparks))
    places = [f"{name} x {sparks}" for name in recipe.hardware]
    yield f"{recipe.name}  ({', '.join(places)})"
    text = " ".join(recipe.description.split())
    yield from textwrap.wrap(text, _WIDTH, initial_indent="    ", subsequent_indent="    ")


@recipes.command()
@click.argument("recipe")
def show(recipe: str) -> None:
    """Show the file of a recipe, with its sources."""
    load_recipe(recipe)
    path = recipe_file(recipe)
    click.echo(f"# {path}\n{path.read_text(encoding='utf-8')}", nl=False)


@recipes.command()
@click.argument("recipe")
def check(recipe: str) -> None:
    """Check a recipe: its keys, options, and whether it fits into memory.

    What only vLLM itself knows, `make check-recipes` in the source tree asks
    the vLLM of the recipe's release.
    """
    loaded = load_recipe(recipe)
    for need in needs(loaded):
        for line in need.details:
            click.echo(line)
    click.echo(f"{loaded.name}: its file is valid (vLLM {loaded.vllm}, {loaded.base_image})")
    sys.exit(_memory([recipe]))


@recipes.command(context_settings=PASSED_ON)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def memory(arguments: tuple[str, ...]) -> None:
    """Plan the memory that a recipe takes.

    Runs: python -m sparkwright.memory
    """
    sys.exit(_memory(arguments))


@recipes.command(context_settings=PASSED_ON)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(arguments: tuple[str, ...]) -> None:
    """Print the exact `docker run` and `vllm serve` lines of a recipe.

    Runs: python -m sparkwright.release.command
    """
    from sparkwright.release.command import main

    sys.exit(main(arguments))


@recipes.command("import")
@click.argument("source")
@click.argument("name", required=False)
@click.option("--replace", is_flag=True, help="Write over a recipe with another content.")
@click.pass_obj
def import_(here: Path, source: str, name: str | None, replace: bool) -> None:
    """Make a recipe that others publish one of the site's own.

    SOURCE is arena, eugr, vllm, nvidia or playbooks, or the path of a
    checkout, or an address of git; @COMMIT may follow. Without NAME, lists
    what it has, and what of it would be taken.
    """
    if (here / source).is_dir():
        source = str(here / source)
    if name is None:
        for line in listing(source):
            click.echo(line)
        return
    enter_site()
    for line in shown_import(import_recipe(source, name, replace=replace)):
        click.echo(line)


@recipes.command(context_settings=PASSED_ON)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def add(arguments: tuple[str, ...]) -> None:
    """Fetch what the source tree stores of a new recipe's models.

    Runs: python -m sparkwright.memory.fetch
    """
    from sparkwright.memory.fetch import main

    sys.exit(main(arguments))


def _memory(arguments: Iterable[str]) -> int:
    from sparkwright.memory.__main__ import main

    return main([*arguments])
