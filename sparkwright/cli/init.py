"""`sparkwright init`: asks for the Sparks, tries them, and writes a site."""

from __future__ import annotations

import contextlib
import getpass
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from sparkwright.cli.site import is_site
from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError
from sparkwright.common.hardware import GIB, HARDWARE
from sparkwright.common.progress import size_text
from sparkwright.common.schema import nearest
from sparkwright.host.survey import Survey
from sparkwright.inventory.logins import key_problem
from sparkwright.preflight.preflight import hardware_of
from sparkwright.recipe.loader import load_recipe, recipe_names
from sparkwright.site.site import NewSpark, inventory_text, parse_spark, site_files, write_site

_GB = 10**9
# The recipe of a site whose Sparks could not be asked what fits on them, by how many serve it.
_UNASKED = {1: "qwen3.6-35b-nvidia", 2: "qwen3.5-122b-nvidia"}
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
@click.option("--user", metavar="NAME", help="Who logs in where an address does not say it.")
@click.option("--key", type=click.Path(), help="A private SSH key, if not the usual one.")
@click.option("--recipe", metavar="NAME", help="What they serve (default: what fits).")
@click.option("--pair/--no-pair", default=None, help="Two Sparks serve one model together.")
@click.option("--no-connect", is_flag=True, help="Write the site without trying the Sparks.")
def init(
    folder: Path,
    addresses: tuple[str, ...],
    user: str | None,
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
    for each in (own := folder.resolve(), *own.parents):
        if is_site(each):
            where = "a site already" if each == own else f"the site {each} above it"
            raise PlanError(f"{folder}: found {where}; expected a new folder outside of any site")
    _check_key(key)
    sparks: list[NewSpark] = []
    for text in addresses:
        sparks.append(_another(text, user, key, sparks))
    sparks = sparks or _asked(user, key)
    if pair is None and len(sparks) == 2:
        pair = _confirm("Do the two serve one model together, joined by a 200G cable?", addresses)
    if pair and len(sparks) != 2:
        raise PlanError(f"--pair: found {len(sparks)} Sparks; expected two")
    surveys: list[Survey] = []
    if not no_connect:
        sparks, surveys = _tried(sparks, bool(addresses))
    together = 2 if pair else 1
    if recipe and recipe not in recipe_names():
        raise PlanError(f"--recipe: found {recipe}; {nearest(recipe, recipe_names())}")
    chosen = recipe or _chosen(sparks, surveys, together, bool(addresses))
    name = folder.resolve().name
    write_site(folder, site_files(name, inventory_text(sparks, chosen, bool(pair))))
    _start_git(folder)
    _report(folder, chosen)


def _check_key(key: str | None) -> None:
    if key and (problem := key_problem(key)):
        raise PlanError(f"--key: {problem}")


def _asked(user: str | None, key: str | None) -> list[NewSpark]:
    """Ask for the Sparks, one after the other, until there is no further one."""
    if not _has_terminal():
        raise PlanError("found no --spark; expected one for each, such as --spark nvidia@ADDRESS")
    sparks: list[NewSpark] = []
    while True:
        which = f"Address of another Spark ({'Enter: no more' if sparks else ''})"
        question = which if sparks else "Address of your Spark (or `local`)"
        text = click.prompt(question, default="" if sparks else None, show_default=False)
        if not text.strip():
            return sparks
        try:
            spark = _another(text, user, key, sparks)
        except PlanError as error:
            click.echo(str(error), err=True)
            continue
        if not (spark.user or spark.is_local):
            last = sparks[-1].user if sparks else None
            who = click.prompt("User on it, who may sudo", default=last or getpass.getuser())
            spark = replace(spark, user=who)
        sparks.append(spark)


def _another(text: str, user: str | None, key: str | None, sparks: Sequence[NewSpark]) -> NewSpark:
    """Return the Spark that an address names, unless it is one of those before it."""
    spark = parse_spark(text, user, key)
    if (spark.address, spark.port or 22) in {(each.address, each.port or 22) for each in sparks}:
        raise PlanError(f"--spark: found {spark.address} twice; expected each Spark once")
    return spark


def _confirm(question: str, addresses: Sequence[str]) -> bool:
    if addresses:
        raise PlanError("found two Sparks; expected --pair (one model together) or --no-pair")
    return click.confirm(question, default=True)


def _tried(sparks: Sequence[NewSpark], given: bool) -> tuple[list[NewSpark], list[Survey]]:
    """Log in to each Spark; ask whether to try again where that does not work.

    Raises:
        PlanError: One of them cannot be used, and there is nobody to ask.
    """
    # It starts gevent, which patches the standard library.
    from sparkwright.site.facts import look

    result, surveys = [], []
    for spark in sparks:
        while True:
            click.echo(f"{spark.login}: ", nl=False)
            seen = look(spark)
            if seen.survey:
                break
            click.echo(seen.trouble)
            if given or not _has_terminal():
                raise PlanError(
                    f"{spark.login}: could not be tried, so nothing was written. To write the "
                    "site without trying: --no-connect"
                )
            if not click.confirm("Try again?", default=True):
                raise click.Abort
        survey = seen.survey
        hardware = hardware_of(survey)
        click.echo(
            f"ok: {survey.gpu or 'no GPU'}, {survey.memory / GIB:.0f} GiB of memory, "
            f"{survey.root_free / _GB:.0f} GB free, {survey.os_name}"
        )
        if not hardware:
            click.echo(
                f"  It is none of the machines that the recipes are for: {', '.join(_known())}. "
                f"The site says gb10; {next_line('plan')} will say what is in the way"
            )
        result.append(replace(spark, hardware=hardware.name if hardware else "gb10"))
        surveys.append(survey)
    return result, surveys


def _has_terminal() -> bool:
    return sys.stdin.isatty()


def _known() -> list[str]:
    return [name for name, hardware in HARDWARE.items() if hardware.memory_gib]


def _chosen(
    sparks: Sequence[NewSpark], surveys: Sequence[Survey], together: int, given: bool
) -> str:
    """Return the recipe that the owner chooses among those that fit, or the first of them."""
    hardware = HARDWARE[sparks[0].hardware]
    groups = [surveys] if together == 2 else [[survey] for survey in surveys]
    if not surveys or any(spark.hardware != sparks[0].hardware for spark in sparks):
        return _UNASKED[together]
    from sparkwright.site.choice import offers

    fitting = [offers(hardware, group) for group in groups]
    everywhere = set.intersection(*({each.recipe for each in some} for some in fitting))
    choice = [each for each in fitting[0] if each.recipe in everywhere]
    if not choice:
        click.echo("None of the recipes fits on them as they are; the site names the first one.")
        return _UNASKED[together]
    for each in choice[:_SHOWN]:
        about = f"{each.description} ({size_text(each.download)} to download)"
        click.echo(click.wrap_text(f"{each.recipe}: {about}", 78, "  ", "      "))
    if len(choice) > _SHOWN:
        click.echo(f"  (others: {next_line('recipes list')})")
    if given or not _has_terminal():
        return choice[0].recipe
    names = [each.recipe for each in choice]
    return str(
        click.prompt("Recipe", default=names[0], type=click.Choice(names), show_choices=False)
    )


def _start_git(folder: Path) -> None:
    """Make the site a git repository with its files added, unless it is in one already."""
    if not shutil.which("git"):
        return
    quiet = {"cwd": folder, "capture_output": True, "check": False}
    if subprocess.run(["git", "rev-parse", "--git-dir"], **quiet).returncode:  # type: ignore[call-overload]
        subprocess.run(["git", "init", "--quiet", "--initial-branch=main"], **quiet)  # type: ignore[call-overload]
        subprocess.run(["git", "add", "."], **quiet)  # type: ignore[call-overload]


def _report(folder: Path, recipe: str) -> None:
    about = load_recipe(recipe)
    click.echo(f"\nWrote {folder}, which serves {recipe} as {', '.join(about.served_names)}.")
    # From there, where the next commands are typed.
    with contextlib.chdir(folder):
        plan, apply = next_line("plan"), next_line("apply")
    lines = (
        (f"cd {shlex.quote(str(folder))}", ""),
        ("cat inventory/sparks.yaml", "the Sparks, and what they serve"),
        (plan, "what would change; changes nothing"),
        (apply, "the same, asks for confirmation, does it"),
        ("git add . && git commit", "once it is as you want it"),
    )
    width = max(len(line) for line, _ in lines)
    for line, purpose in lines:
        click.echo(f"  {line:<{width}}  {purpose}".rstrip())
