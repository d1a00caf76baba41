"""The command `sparkwright`: a verb for each deploy of a site, and for the programs beside them."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import click

from sparkwright import __version__
from sparkwright.cli import run
from sparkwright.cli.files import bundle, lock, monitoring, openclaw
from sparkwright.cli.init import init
from sparkwright.cli.keys import keys
from sparkwright.cli.logs import logs
from sparkwright.cli.recipes import recipes
from sparkwright.common.errors import refuse
from sparkwright.common.last_resort import guarded
from sparkwright.declared.fleet.group_data import checked_group_data
from sparkwright.declared.fleet.settings import Settings
from sparkwright.declared.recipe.loader import OWN_RECIPES, load_recipe
from sparkwright.plan.release.lock import lock_path, read_lock

_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 80}
_EPILOG = """\b
Examples:
  sparkwright init my-sparks        write a site: a folder to keep in git
  sparkwright plan                  what would change; changes nothing
  sparkwright apply                 the same, asks for confirmation, does it
  sparkwright logs -f               the engine's log
  sparkwright -i staging status     another inventory: inventory/staging.yaml

\b
Exit status: 0 done; 1 failed, with what and why; 2 wrong use of the command
line, or drift has found differences; 130 interrupted."""


@click.group(cls=run.InOrder, context_settings=_SETTINGS, epilog=_EPILOG)
@click.version_option(__version__, prog_name="sparkwright")
@click.option(
    "-i",
    "--inventory",
    metavar="NAME",
    help="Use inventory/NAME.yaml (default: sparks; also SPARKWRIGHT_INVENTORY).",
)
def cli(inventory: str | None) -> None:
    """Serve models with vLLM on NVIDIA DGX Sparks.

    Run it in your site's folder, or below it.
    """
    run.choose_inventory(inventory)


_verb = partial(run.verb, cli)
cli.add_command(init)
_verb("plan", "Show what `apply` would change; change nothing.", flags=["--dry"])
_verb(
    "apply",
    "Make the Sparks serve what the inventory declares.\n\nA run that was interrupted is finished "
    "by running it again; a second run changes nothing.",
    example="-y --limit spark-a --limit spark-b",
)


@cli.command()
def check() -> None:
    """Check inventory, settings, lock and own recipes; ask no Spark."""
    from sparkwright.run.inventory.data import contradictions
    from sparkwright.run.inventory.groups import load

    fleet = run.site_fleet()
    load(fleet.source)
    refuse(contradictions(fleet, checked_group_data(), {}))
    read_lock(lock_path(fleet.source))
    for path in OWN_RECIPES.glob("*.yaml"):
        load_recipe(path.stem)
    click.echo(f"{fleet.source}: valid, and so are settings, lock and recipes")


@cli.command(context_settings={"ignore_unknown_options": True})
@run.LIMIT
@click.option("--reboot", is_flag=True, help="Also reboot each Spark; it must serve again.")
@click.option(
    "--record",
    metavar="FILE",
    type=click.Path(resolve_path=True),
    help="Write what was proved, without names, for others.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST ARGUMENTS]")
def verify(
    limit: tuple[str, ...], reboot: bool, record: str | None, arguments: tuple[str, ...]
) -> None:
    """Prove that the Sparks are as declared, and serve.

    A failure is a line; -vv shows the rest. The exit status is 0 only where
    all holds.

    Example: sparkwright verify --limit chat --reboot

    Runs: pytest tests/verify
    """
    run.enter_site()
    if not Path(sys.executable).with_name("pytest").exists():
        raise click.ClickException(
            "found no pytest; expected it beside Sparkwright: pip install 'sparkwright[verify]'"
        )
    own = ["tests/verify"] if Path("tests/verify").is_dir() else ["--pyargs", "sparkwright.verify"]
    own += [f"--limit={name}" for name in limit] + ["--reboot"] * reboot
    own += [f"--record={record}"] if record else []
    run.replace_process("pytest", [*own, *arguments])


_verb(
    "status",
    "Show what serves, how fast, and how the Sparks are.",
    click.option(
        "--watch", is_flag=False, flag_value=5, type=int, metavar="[S]", help="Again every S s (5)."
    ),
    click.option("--json", flag_value="-", help="One line of JSON."),
    example="--json | jq .",
)
cli.add_command(logs)


_verb(
    "doctor",
    "Find out why something does not work; change nothing.",
    click.option(
        "--report",
        metavar="FILE",
        type=click.Path(resolve_path=True, allow_dash=True),
        help="Write a report for an issue: no addresses, names or secrets are in it; - prints it.",
    ),
    flags=["-y"],
    example="--report report.md",
)
_verb(
    "notify",
    "Send a test notice from each Spark to your webhook.",
    click.argument("test", type=click.Choice(["test"]), expose_value=False),
    flags=["-y"],
    example="test --limit spark-a",
)
_verb(
    "drift",
    "Show what differs from what is declared; change nothing.\n\nThe exit status is 0 where "
    "nothing differs, 2 where something does, and 1 where a Spark could not be read.",
    click.option("--json", flag_value="-", help="Print JSON."),
)


@cli.command()
@click.option(
    "--soak",
    type=click.FloatRange(0),
    default=300,
    metavar="S",
    help="Seconds that each wave must hold (300).",
)
@click.option(
    "--minimum-speed",
    type=click.FloatRange(0, min_open=True),
    metavar="N",
    help="Tokens/s of one stream at least.",
)
@click.option(
    "--force", default="", metavar="REPLICAS", help="Those that may leave their clients waiting."
)
@click.option("--dry", is_flag=True, help="Show the waves; change nothing.")
@run.YES
@run.run_options
def rollout(
    soak: float, minimum_speed: float | None, force: str, dry: bool, yes: bool, **options: Any
) -> None:
    """Change what many replicas serve, in waves, a canary first.

    Example: sparkwright rollout --soak 600 --minimum-speed 40

    Runs: pyinfra, once for each step
    """
    from sparkwright.upkeep.rollout.rollout import roll_out
    from sparkwright.upkeep.rollout.runs import Runs

    run.enter_site()
    runs = Runs(run.option_words(options, "limit", "exclude"), run.option_words(options, "data"))
    forced = [*filter(None, force.split(","))]
    sys.exit(roll_out(runs, soak, minimum_speed, forced, dry=dry, yes=yes))


_verb("rollback", "Serve the previous release again.")
_verb("upgrade", "Upgrade kernel, driver, toolkit and Docker that are held, on one replica.")
_verb("stop", "Stop the engines, until `start`, `apply` or the next boot.")
_verb("start", "Start the engines that `stop` has stopped, as they were.")
_verb("gateway", "Set up one address for all replicas.", example="-y")
_verb(
    "benchmark",
    "Measure what the replicas deliver; takes 30 to 60 minutes.",
    click.option("--workloads", metavar="NAMES", help="Only these, with commas between them."),
    example="--workloads short,code --limit chat",
)
_verb(
    "clean",
    "Free the disk of what no rollback needs; shows it with its size.",
    click.option(
        "--keep-releases",
        type=int,
        metavar="N",
        help="Previous releases that stay (default: the setting keep_releases, "
        f"{Settings().keep_releases} unless the group data differ).",
    ),
    example="--keep-releases 0",
)
_verb(
    "remove",
    "Remove Sparkwright from the Sparks; weights stay.",
    click.option("--weights", flag_value="remove", help="Delete the checkpoints as well."),
    example="--limit spark-b --weights",
)
for _command in (recipes, keys, lock, bundle, monitoring, openclaw):
    cli.add_command(_command)


def main() -> int:
    """Run the command line. Returns the exit status."""
    return guarded(_run)


def _run() -> int:
    try:
        cli.main(prog_name="sparkwright", standalone_mode=False)
    except click.exceptions.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return 0
