"""`sparkwright init`: asks for the Sparks, tries them, and writes a site."""

from __future__ import annotations

import contextlib
import getpass
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from sparkwright.cli.new_site import inventory_text, login, parse_spark, site_files, write_site
from sparkwright.cli.run import is_site
from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError
from sparkwright.common.hardware import GIB, HARDWARE, Hardware
from sparkwright.common.progress import size_text
from sparkwright.common.schema import nearest
from sparkwright.declared.fleet.fleet import Spark
from sparkwright.declared.recipe.loader import load_recipe, recipe_names
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.declared.recipe.values import COUNTS
from sparkwright.machine.host.survey import Survey
from sparkwright.machine.preflight.preflight import hardware_of
from sparkwright.plan.memory.check import memory_findings
from sparkwright.plan.memory.known_checkpoints import nominal_load
from sparkwright.run.inventory.data import key_problem

# In the order in which they are recommended (docs/recipes.md): the first that fits is offered.
FIRST = {
    **{1: ("qwen3.6-35b-nvidia",), 2: ("qwen3.5-122b-nvidia", "qwen3.6-35b-nvidia")},
    **dict.fromkeys(COUNTS[2:], ("qwen3.5-397b-int4",)),
}
# Recipes that are shown to choose from.
_SHOWN = 4


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=Path("my-sparks"))
@click.option(
    "--spark",
    "addresses",
    multiple=True,
    metavar="[USER@]ADDRESS",
    help="A Spark; repeatable. `local`: the machine that runs this.",
)
@click.option("--key", type=click.Path(), help="A private SSH key, if not the usual one.")
@click.option("--recipe", metavar="NAME", help="What they serve (default: what fits).")
@click.option("--pair/--no-pair", default=None, help="All serve one model together: 2, 3, 4 or 8.")
@click.option("--no-connect", is_flag=True, help="Write the site without trying the Sparks.")
def init(
    folder: Path,
    addresses: tuple[str, ...],
    key: str | None,
    recipe: str | None,
    pair: bool | None,
    no_connect: bool,
) -> None:
    """Write a site: what your Sparks serve, as files for git.

    It asks for what no option says, logs in to the Sparks, tries sudo, and
    offers the models that fit. It changes nothing on them. FOLDER is
    my-sparks if it is left out.

    \b
    sparkwright init my-sparks
    sparkwright init my-sparks --spark nvidia@192.168.1.20
    sparkwright init pair --spark me@10.0.0.5 --spark me@10.0.0.6 --pair
    """
    own = folder.resolve()
    if site := next(filter(is_site, (own, *own.parents)), None):
        raise PlanError(
            f"{folder}: found the site {site}; expected a new folder outside of any site"
        )
    if key and (problem := key_problem(key)):
        raise PlanError(f"--key: {problem}")
    asks = _has_terminal() and not addresses
    sparks: list[Spark] = []
    for text in addresses:
        sparks.append(_another(text, key, sparks))
    sparks = sparks or _asked(key, asks)
    number, groups = len(sparks), COUNTS[1:]
    if pair is None and number == 2 and not asks:
        raise PlanError("found two Sparks; expected --pair (one model together) or --no-pair")
    if pair is None and asks and number in groups:
        question = f"Do the {number} serve one model together, joined by 200G cables?"
        pair = click.confirm(question, default=True)
    if pair and number not in groups:
        raise PlanError(f"--pair: found {number} Sparks; expected 2, 3, 4 or 8")
    if recipe and recipe not in recipe_names():
        raise PlanError(f"--recipe: found {recipe}; {nearest(recipe, recipe_names())}")
    surveys = [] if no_connect else [_tried(spark, asks) for spark in sparks]
    if surveys:
        sparks = [*map(_of_its_class, sparks, surveys)]
    together = number if pair else 1
    chosen = recipe or _chosen(sparks, surveys, together, asks)
    load_recipe(chosen).checked_sparks(together, "--spark")
    write_site(folder, site_files(own.name, inventory_text(sparks, chosen, bool(pair))))
    _start_git(folder)
    _report(folder, chosen)


def _has_terminal() -> bool:
    return sys.stdin.isatty()


def _asked(key: str | None, asks: bool) -> list[Spark]:
    """Ask for the Sparks, one after the other, until there is no further one."""
    if not asks:
        raise PlanError("found no --spark; expected one for each, such as --spark nvidia@ADDRESS")
    sparks: list[Spark] = []
    while True:
        more = "Address of another Spark (Enter: no more)"
        question = more if sparks else "Address of your Spark (or `local`)"
        text = click.prompt(question, default="" if sparks else None, show_default=False)
        if not text.strip():
            return sparks
        try:
            spark = _another(text, key, sparks)
        except PlanError as error:
            click.echo(str(error), err=True)
            continue
        if not (spark.ssh_user or spark.local):
            last = sparks[-1].ssh_user if sparks else None
            who = click.prompt("User on it, who may sudo", default=last or getpass.getuser())
            spark = spark.model_copy(update={"ssh_user": who})
        sparks.append(spark)


def _another(text: str, key: str | None, sparks: Sequence[Spark]) -> Spark:
    """Return the Spark that an address names, unless it is one of those before it."""
    spark = parse_spark(text, key)
    address = spark.ssh_hostname, spark.ssh_port
    if address in {(each.ssh_hostname, each.ssh_port) for each in sparks}:
        raise PlanError(f"--spark: found {address[0] or 'local'} twice; expected each Spark once")
    return spark


def _tried(spark: Spark, asks: bool) -> Survey:
    """Log in to a Spark; ask whether to try again where that does not work."""
    # It starts gevent, which patches the standard library.
    from sparkwright.cli.look import look

    while True:
        click.echo(f"{login(spark)}: ", nl=False)
        seen = look(spark)
        if isinstance(seen, Survey):
            break
        click.echo(seen)
        if not asks:
            raise PlanError(
                f"{login(spark)}: could not be tried, so nothing was written. To write the site "
                "without trying: --no-connect"
            )
        click.confirm("Try again?", default=True, abort=True)
    click.echo(
        f"ok: {seen.gpu or 'no GPU'}, {seen.memory / GIB:.0f} GiB of memory, "
        f"{seen.root_free / 10**9:.0f} GB free, {seen.os_name}"
    )
    return seen


def _of_its_class(spark: Spark, survey: Survey) -> Spark:
    """Return a Spark with the hardware class of the machine."""
    hardware = hardware_of(survey)
    if not hardware:
        known = (name for name, each in HARDWARE.items() if each.memory_gib)
        click.echo(
            f"  It is none of the machines that the recipes are for: {', '.join(known)}. "
            f"The site says gb10; {next_line('plan')} will say what is in the way"
        )
    if not hardware or hardware.name == spark.hardware:
        return spark
    return spark.model_copy(update={"hardware": hardware.name})


def _chosen(sparks: Sequence[Spark], surveys: Sequence[Survey], together: int, asks: bool) -> str:
    """Return the recipe that the owner chooses among those that fit, or the first of them."""
    first, classes = FIRST[together][0], {spark.hardware for spark in sparks}
    if not surveys or len(classes) > 1:
        return first
    groups = [surveys] if together > 1 else [[survey] for survey in surveys]
    sizes, *others = (offers(HARDWARE[sparks[0].hardware], group) for group in groups)
    names = [name for name in sizes if all(name in some for some in others)]
    if not names:
        click.echo("None of the recipes fits on them as they are; the site names the first one.")
        return first
    for name in names[:_SHOWN]:
        description = " ".join(load_recipe(name).description.split())
        about = f"{description} ({size_text(sizes[name])} to download)"
        click.echo(click.wrap_text(f"{name}: {about}", 78, "  ", "      "))
    if len(names) > _SHOWN:
        click.echo(f"  (others: {next_line('recipes list')})")
    if not asks:
        return names[0]
    kind = click.Choice(names)
    return str(click.prompt("Recipe", default=names[0], type=kind, show_choices=False))


def offers(hardware: Hardware, surveys: Sequence[Survey]) -> dict[str, int]:
    """Return the recipes that fit, the recommended ones first, and the bytes to download."""
    names = dict.fromkeys([*FIRST[len(surveys)], *recipe_names()])
    found = {name: _download(load_recipe(name), hardware, surveys) for name in names}
    return {name: size for name, size in found.items() if size}


def _download(recipe: Recipe, hardware: Hardware, surveys: Sequence[Survey]) -> int:
    """Return the bytes of a recipe's checkpoints; 0 where nothing says that it fits."""
    sparks = len(surveys)
    if hardware.name not in recipe.hardware or sparks not in recipe.sparks:
        return 0
    load = nominal_load(recipe.for_sparks(sparks), sparks)
    known = map(load.checkpoints.get, recipe.whole_models)
    sizes = [each.size if each else 0 for each in known]
    if not all(sizes) or load.shapeless:
        return 0
    findings = (
        memory_findings(load, hardware, each.memory, each.kernel.handover) for each in surveys
    )
    return 0 if any(finding.error for some in findings for finding in some) else sum(sizes)


def _start_git(folder: Path) -> None:
    """Make the site a git repository with its files added, unless it is in one already."""
    git = ["git", "-C", str(folder)]
    look = [*git, "rev-parse", "--git-dir"]
    if shutil.which("git") and subprocess.run(look, capture_output=True).returncode:
        for words in (["init", "--quiet", "--initial-branch=main"], ["add", "."]):
            subprocess.run([*git, *words], capture_output=True, check=False)


def _report(folder: Path, recipe: str) -> None:
    names = ", ".join(load_recipe(recipe).served_names)
    # From there, where the next commands are typed.
    with contextlib.chdir(folder):
        plan, apply = next_line("plan"), next_line("apply")
    lines = (
        ("cat inventory/sparks.yaml", "the Sparks, and what they serve"),
        (
            "cat group_data/sparks.py",
            "settings, such as a GPU 12 °C cooler for 1 % of speed",
        ),
        (plan, "what would change; changes nothing"),
        (apply, "the same, asks for confirmation, does it"),
        ("git add . && git commit", "once it is as you want it"),
    )
    width = max(len(line) for line, _ in lines)
    click.echo(
        f"\nWrote {folder}, which serves {recipe} as {names}.\n\nNext:\n"
        f"  cd {shlex.quote(str(folder))}"
    )
    for line, about in lines:
        click.echo(f"  {line:<{width}}  {about}")
