"""`sparkwright recipes`: what can be served, and whether it fits."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import click

from sparkwright.cli.run import enter_site
from sparkwright.common.terminal import plain_lines
from sparkwright.declared.recipe.imports import import_recipe, listing
from sparkwright.declared.recipe.loader import load_recipe, recipe_file, recipe_names
from sparkwright.declared.recipe.trust import needs


@click.group()
def recipes() -> None:
    """What can be served: list, show, check, command, import.

    Beside the recipes that come with Sparkwright, a site has its own in
    files/recipes. RECIPE is a name, or the path of a file.
    """
    # Where paths that the command names begin.
    click.get_current_context().obj = Path.cwd()
    # A site's own recipes are found from its folder; ours from anywhere.
    with suppress(click.ClickException):
        enter_site()


def _say(text: str) -> None:
    """Print a recipe's words, which may be a stranger's, without what moves a terminal."""
    click.echo(plain_lines(text, len(text)))


@recipes.command("list")
def list_() -> None:
    """List the recipes, and what each serves."""
    for name in recipe_names():
        recipe = load_recipe(name)
        if recipe.hardware != ["lab"]:
            sparks = " or ".join(map(str, recipe.sparks))
            places = ", ".join(f"{each} x {sparks}" for each in recipe.hardware)
            text = " ".join(recipe.description.split())
            _say(f"{name}  ({places})\n{click.wrap_text(text, 80, '    ', '    ')}")


@recipes.command()
@click.argument("recipe")
def show(recipe: str) -> None:
    """Show the file of a recipe, with its sources."""
    load_recipe(recipe)
    path = recipe_file(recipe)
    _say(f"# {path}\n{path.read_text(encoding='utf-8').removesuffix(chr(10))}")


@recipes.command()
@click.argument("recipe")
def check(recipe: str) -> None:
    """Check a recipe: its keys, options, and whether it fits into memory.

    What only vLLM itself knows, `make check-recipes` in the source tree asks
    the vLLM of the recipe's release.
    """
    loaded = load_recipe(recipe)
    for need in needs(loaded):
        _say("\n".join(need.details))
    _say(f"{loaded.name}: its file is valid (vLLM {loaded.vllm}, {loaded.base_image})")
    click.get_current_context().invoke(memory, recipe=recipe)


@recipes.command()
@click.argument("recipe")
@click.option("--hardware", metavar="CLASS", help="Default: the recipe's first.")
@click.option("--sparks", type=int, metavar="N", help="How many (default: the least).")
@click.option("--locked", is_flag=True, help="Take all sizes from the site's lock.")
def memory(recipe: str, hardware: str | None, sparks: int | None, locked: bool) -> None:
    """Plan the memory that a recipe takes."""
    from sparkwright.plan.memory.known_checkpoints import show as planned

    text, fits = planned(recipe, hardware, sparks, locked)
    _say(text)
    sys.exit(0 if fits else 1)


@recipes.command()
@click.argument("recipe")
@click.option("--sparks", type=int, metavar="N", help="How many (default: the least).")
def command(recipe: str, sparks: int | None) -> None:
    """Print the exact `docker run` and `vllm serve` lines of a recipe."""
    from sparkwright.plan.release.command import report

    _say("\n".join(report(recipe, sparks)))


@recipes.command("import")
@click.argument("source")
@click.argument("name", required=False)
@click.option("--replace", is_flag=True, help="Write over a recipe with another content.")
@click.pass_obj
def import_(here: Path, source: str, name: str | None, replace: bool) -> None:
    """Make a recipe that others publish one of the site's own.

    SOURCE is arena, eugr or vllm, or an address of git, which @COMMIT may
    follow; or a folder. Without NAME, lists what it has, and what of it
    would be taken.
    """
    if (here / source).is_dir():
        source = str(here / source)
    if name is None:
        lines = listing(source)
    else:
        enter_site()
        lines = iter(import_recipe(source, name, replace=replace))
    for line in lines:
        _say(line)
