"""Starts what a verb stands for: pyinfra on the site, or pytest."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from sparkwright.cli.site import ENTRY, enter_site
from sparkwright.cli.start import start
from sparkwright.common.command_line import handed_on

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


def run_options(command: _Command, *own: Callable[[_Command], _Command]) -> _Command:
    """Add the options of every verb that runs pyinfra, below its own ones."""
    for option in reversed((*own, *_OPTIONS)):
        command = option(command)
    return command


def option_words(options: Mapping[str, Any], *names: str) -> list[str]:
    """Return the words by which pyinfra gets repeatable options of `run_options`."""
    pairs = ((name, value) for name in names for value in options[name])
    return [word for name, value in pairs for word in (f"--{name}", value)]


def verb(
    group: click.Group,
    name: str,
    summary: str,
    *own: Callable[[_Command], _Command],
    deploy: str = "",
    flags: Sequence[str] = (),
    asks: bool = True,
    example: str = "--limit chat",
) -> None:
    """Add a verb that runs pyinfra with a deploy of the site.

    Args:
        own: Its own options; pyinfra gets the value of each as ``--data``.
        deploy: Name of the file in deploys, without ``.py``; "" where the verb has it.
        flags: Options of pyinfra, such as ``--dry``.
        asks: It changes Sparks, and has ``--yes``.
    """
    target = f"deploys/{deploy or name}.py"

    def run(verbose: int, yes: bool = False, **options: Any) -> None:
        enter_site()
        words = [ENTRY, target, *flags, *(["-y"] if yes else [])]
        words += option_words(options, "limit", "exclude", "data")
        for key, value in options.items():
            if key not in ("limit", "exclude", "data") and value is not None:
                words += ["--data", f"{key}={value}"]
        replace_process("pyinfra", [*words, *(["-" + "v" * verbose] if verbose else [])])

    runs = " ".join(["pyinfra", ENTRY, target, *flags])
    about = f"{summary}\n\nExample: sparkwright {name} {example}\n\nRuns: {runs}"
    group.command(name, help=about)(run_options(run, *own, *([YES] if asks else [])))


def replace_process(program: str, words: Sequence[str]) -> None:
    """Replace this process by pyinfra or pytest.

    What it prints about how to go on names the command that the user has typed.
    """
    os.environ.update(handed_on())
    sys.stdout.flush()
    start(program, words)
