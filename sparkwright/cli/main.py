"""The command `sparkwright`: a verb for each deploy of a site, and for the programs beside them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from sparkwright import __version__
from sparkwright.cli.files import bundle, lock, monitoring, openclaw
from sparkwright.cli.init import init
from sparkwright.cli.keys import keys
from sparkwright.cli.logs import logs
from sparkwright.cli.recipes import recipes
from sparkwright.cli.run import PASSED_ON, option_words, replace_process, run_deploy, run_options
from sparkwright.cli.site import InOrder, choose_inventory, enter_site
from sparkwright.common.command_line import handed_on
from sparkwright.common.last_resort import guarded
from sparkwright.fleet.settings import Settings

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


@click.group(cls=InOrder, context_settings=_SETTINGS, epilog=_EPILOG)
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
    choose_inventory(inventory)


cli.add_command(init)

_YES = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")


def _deploy(
    name: str, summary: str, deploy: str, *flags: str, asks: bool = True, example: str = ""
) -> None:
    """Add a verb for a deploy that has no options of its own."""

    def run(yes: bool = False, **options: Any) -> None:
        run_deploy(deploy, [*flags, *_confirmed(yes)], **options)

    runs = " ".join(["pyinfra inventory.py", f"deploys/{deploy}.py", *flags])
    command = run_options(_YES(run) if asks else run)
    line = f"Example: sparkwright {name} {example or '--limit chat'}"
    cli.command(name, help=f"{summary}\n\n{line}\n\nRuns: {runs}")(command)


_deploy("plan", "Show what `apply` would change; change nothing.", "spark", "--dry", asks=False)
_deploy(
    "apply",
    "Make the Sparks serve what the inventory declares.\n\nA run that was interrupted is finished "
    "by running it again; a second run changes nothing.",
    "spark",
    example="-y --limit spark-a --limit spark-b",
)


@cli.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "--limit", multiple=True, metavar="NAME", help="Only this Spark or replica; repeatable."
)
@click.option("--reboot", is_flag=True, help="Also reboot each Spark; it must serve again.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST ARGUMENTS]")
def verify(limit: tuple[str, ...], reboot: bool, arguments: tuple[str, ...]) -> None:
    """Prove that the Sparks are as declared, and serve.

    A failure is a line; -vv shows the rest. The exit status is 0 only where
    all holds.

    Example: sparkwright verify --limit chat --reboot

    Runs: pytest tests/verify
    """
    enter_site()
    if not Path(sys.executable).with_name("pytest").exists():
        raise click.ClickException(
            "found no pytest; expected it beside Sparkwright: pip install 'sparkwright[verify]'"
        )
    tests = (
        ["tests/verify"] if Path("tests/verify").is_dir() else ["--pyargs", "sparkwright.verify"]
    )
    own = [f"--limit={name}" for name in limit] + (["--reboot"] if reboot else [])
    replace_process("pytest", [*tests, *own, *arguments])


@cli.command()
@click.option(
    "--watch", is_flag=False, flag_value=5, type=int, metavar="[S]", help="Again every S s (5)."
)
@click.option("--json", "as_json", is_flag=True, help="One line of JSON.")
@run_options
def status(watch: int | None, as_json: bool, **options: Any) -> None:
    """Show what serves, how fast, and how the Sparks are.

    Examples: sparkwright status --watch, sparkwright status --json | jq .

    Runs: pyinfra inventory.py deploys/status.py
    """
    run_deploy("status", values={"watch": watch, "json": "-" if as_json else None}, **options)


cli.add_command(logs)


@cli.command()
@click.option(
    "--report",
    metavar="FILE",
    help="Write a report for an issue: no addresses, names or secrets are in it; - prints it.",
)
@run_options
def doctor(report: str | None, **options: Any) -> None:
    """Find out why something does not work; change nothing.

    Example: sparkwright doctor --report report.md

    Runs: pyinfra inventory.py deploys/doctor.py -y
    """
    # The run's own folder is the site's.
    path = str(Path(report).absolute()) if report and report != "-" else report
    run_deploy("doctor", ["-y"], {"report": path}, **options)


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@run_options
def drift(as_json: bool, **options: Any) -> None:
    """Show what differs from what is declared; change nothing.

    The exit status is 0 where nothing differs, 2 where something does, and 1
    where a Spark could not be read.

    Runs: pyinfra inventory.py deploys/drift.py
    """
    run_deploy("drift", values={"json": "-" if as_json else None}, **options)


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
@click.option("--force", metavar="REPLICAS", help="Those that may leave their clients waiting.")
@click.option("--dry", is_flag=True, help="Show the waves; change nothing.")
@_YES
@run_options
def rollout(
    soak: float,
    minimum_speed: float | None,
    force: str | None,
    dry: bool,
    yes: bool,
    **options: Any,
) -> None:
    """Change what many replicas serve, in waves, a canary first.

    Example: sparkwright rollout --soak 600 --minimum-speed 40

    Runs: pyinfra, once for each step
    """
    from sparkwright.rollout.command import roll_out
    from sparkwright.rollout.runs import Runs

    enter_site()
    chosen, settings = option_words(options, "limit", "exclude"), option_words(options, "settings")
    forced = force.split(",") if force else []
    os.environ.update(handed_on())
    runs = Runs(chosen, settings)
    sys.exit(roll_out(runs, soak, minimum_speed, forced, dry=dry, yes=yes))


_deploy("rollback", "Serve the previous release again.", "rollback")
_deploy("stop", "Stop the engines, until `start`, `apply` or the next boot.", "stop")
_deploy("start", "Start the engines that `stop` has stopped, as they were.", "start")
_deploy("gateway", "Set up one address for all replicas.", "gateway", example="-y")


@cli.command()
@click.option("--workloads", metavar="NAMES", help="Only these, with commas between them.")
@_YES
@run_options
def benchmark(workloads: str | None, yes: bool, **options: Any) -> None:
    """Measure what the replicas deliver; takes 30 to 60 minutes.

    Example: sparkwright benchmark --workloads short,code --limit chat

    Runs: pyinfra inventory.py deploys/benchmark.py
    """
    run_deploy("benchmark", _confirmed(yes), {"workloads": workloads}, **options)


@cli.command()
@click.option(
    "--keep-releases",
    type=int,
    metavar="N",
    help="Previous releases that stay (default: the setting keep_releases, "
    f"{Settings().keep_releases} unless the group data differ).",
)
@_YES
@run_options
def clean(keep_releases: int | None, yes: bool, **options: Any) -> None:
    """Free the disk of what no rollback needs; shows it with its size.

    Example: sparkwright clean --keep-releases 0

    Runs: pyinfra inventory.py deploys/clean.py
    """
    # 0 is a number to pass on, unlike an option that was left out.
    data = {} if keep_releases is None else {"keep_releases": str(keep_releases)}
    run_deploy("clean", _confirmed(yes), data, **options)


@cli.command()
@click.option("--weights", is_flag=True, help="Delete the checkpoints as well.")
@_YES
@run_options
def remove(weights: bool, yes: bool, **options: Any) -> None:
    """Remove Sparkwright from the Sparks; weights stay.

    Example: sparkwright remove --limit spark-b --weights

    Runs: pyinfra inventory.py deploys/remove.py
    """
    run_deploy("remove", _confirmed(yes), {"weights": "remove" if weights else None}, **options)


@cli.command(context_settings=PASSED_ON)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def lab(arguments: tuple[str, ...]) -> None:
    """Try it all on virtual Sparks; needs the source tree, and root.

    Runs: python -m tests.lab; without arguments: python -m tests.lab demo
    """
    if not Path("tests/lab/__main__.py").is_file():
        raise click.ClickException(
            "found no tests/lab in this folder; expected Sparkwright's source tree: the virtual "
            "Sparks are part of it, and `make demo` there sets up what they need"
        )
    os.execv(sys.executable, [sys.executable, "-m", "tests.lab", *(arguments or ("demo",))])


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion of a shell.

    \b
    bash: eval "$(sparkwright completion bash)"      in ~/.bashrc
    zsh:  eval "$(sparkwright completion zsh)"       in ~/.zshrc
    fish: sparkwright completion fish | source       in config.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind
    click.echo(kind(cli, {}, "sparkwright", "_SPARKWRIGHT_COMPLETE").source())


def _confirmed(yes: bool) -> list[str]:
    return ["-y"] if yes else []


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
