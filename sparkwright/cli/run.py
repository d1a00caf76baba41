"""The site that a command works on, and what its verbs start there: pyinfra, or pytest."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from sparkwright.cli.start import start
from sparkwright.common.command_line import DEPLOYS, handed_on, next_line
from sparkwright.common.paths import INVENTORY_VARIABLE, inventory_file
from sparkwright.declared.fleet.file import load_fleet
from sparkwright.declared.fleet.fleet import Fleet

_ENTRY = "inventory.py"
# Verbs that change no Spark, and so ask for no confirmation.
_LOOKS = ("plan", "status", "doctor", "drift", "notify")

LIMIT = click.option(
    "--limit", multiple=True, metavar="NAME", help="Only this Spark or replica; repeatable."
)
_OPTIONS = (
    LIMIT,
    click.option("--exclude", multiple=True, metavar="NAME", help="Without this one; repeatable."),
    click.option(
        "--data", multiple=True, metavar="KEY=VALUE", help="A setting for this run; repeatable."
    ),
    click.option("-v", "--verbose", count=True, help="-v shows what is read, -vvv every command."),
)
YES = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
_Command = Callable[..., Any]


class InOrder(click.Group):
    """A group that lists its commands in the order of their definition."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return [*self.commands]


def is_site(folder: Path) -> bool:
    """Tell whether a folder is a site, or a clone, which can be one."""
    return (folder / _ENTRY).is_file() and (folder / "deploys").is_dir()


def enter_site() -> None:
    """Change to the site: this folder, or the nearest one above it that has an inventory.py."""
    here = Path.cwd()
    if site := next(filter(is_site, (here, *here.parents)), None):
        os.chdir(site)
        return
    raise click.ClickException(
        f"found no site in {here}, nor above it; expected a folder with {_ENTRY}: cd to yours, or "
        f"make one: {next_line('init', 'my-sparks')}"
    )


def site_fleet() -> Fleet:
    """Enter the site, and return the fleet of its inventory."""
    enter_site()
    return load_fleet(inventory_file())


def choose_inventory(name: str | None) -> None:
    """Have this process and those that it starts use ``inventory/NAME.yaml``, or that file."""
    if name is None:
        return
    stem = Path(name).stem if name.endswith((".yaml", ".yml")) else name
    if not stem or stem != Path(stem).name or stem.startswith("."):
        raise click.BadParameter(f"found {name!r}; expected a name, such as staging")
    os.environ[INVENTORY_VARIABLE] = stem


def run_options(command: _Command, *own: Callable[[_Command], _Command]) -> _Command:
    """Add the options of every verb that runs pyinfra, below its own ones."""
    for option in reversed((*own, *_OPTIONS)):
        command = option(command)
    return command


def option_words(options: Mapping[str, Any], *names: str) -> list[str]:
    """Return the words by which pyinfra gets repeatable options of `run_options`."""
    return [word for name in names for value in options[name] for word in (f"--{name}", value)]


def verb(
    group: click.Group,
    name: str,
    summary: str,
    *own: Callable[[_Command], _Command],
    flags: Sequence[str] = (),
    example: str = "--limit chat",
) -> None:
    """Add a verb that runs pyinfra with a deploy; it gets the verb's own options as ``--data``."""
    line = [_ENTRY, DEPLOYS["apply" if name == "plan" else name], *flags]

    def run(verbose: int, yes: bool = False, **options: Any) -> None:
        enter_site()
        shared = {name: options.pop(name) for name in ("limit", "exclude", "data")}
        given = [f"{name}={value}" for name, value in options.items() if value is not None]
        shared["data"] = (*shared["data"], *given)
        words = [*line, *(["-y"] if yes else []), *option_words(shared, *shared)]
        replace_process("pyinfra", [*words, *(["-" + "v" * verbose] if verbose else [])])

    about = f"{summary}\n\nExample: sparkwright {name} {example}\n\nRuns: pyinfra {' '.join(line)}"
    group.command(name, help=about)(run_options(run, *own, *([] if name in _LOOKS else [YES])))


def replace_process(program: str, words: Sequence[str]) -> None:
    """Replace this process by pyinfra or pytest, whose messages name the command as typed."""
    os.environ.update(handed_on())
    sys.stdout.flush()
    start(program, words)
