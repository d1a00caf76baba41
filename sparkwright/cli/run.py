"""Starts what a verb stands for: pyinfra on the site, or a program of this environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from sparkwright.cli.site import ENTRY, enter_site
from sparkwright.cli.start import start
from sparkwright.common.command_line import handed_on

# The settings of a verb whose program parses all of its arguments itself, --help included.
PASSED_ON: dict[str, Any] = {"ignore_unknown_options": True, "help_option_names": []}

_Command = Callable[..., Any]


def run_options(command: _Command) -> _Command:
    """Add the options of every verb that runs pyinfra."""
    for option in (
        click.option(
            "--limit", multiple=True, metavar="NAME", help="Only this Spark or replica; repeatable."
        ),
        click.option(
            "--exclude", multiple=True, metavar="NAME", help="Without this one; repeatable."
        ),
        click.option(
            "--data",
            "settings",
            multiple=True,
            metavar="KEY=VALUE",
            help="A setting for this run; repeatable.",
        ),
        click.option(
            "-v", "--verbose", count=True, help="-v shows what is read, -vvv every command."
        ),
    ):
        command = option(command)
    return command


def pyinfra_words(
    deploy: str,
    flags: Sequence[str] = (),
    values: Mapping[str, object] | None = None,
    options: Mapping[str, Any] | None = None,
) -> list[str]:
    """Return the arguments of pyinfra for a deploy.

    Args:
        deploy: Name of a file in deploys, without ``.py``.
        flags: Options of pyinfra, such as ``--dry``.
        values: Those for ``--data``; those that are None, False or empty are left out.
        options: What the options of `run_options` gave.
    """
    given = options or {}
    words = [ENTRY, f"deploys/{deploy}.py", *flags]
    words += option_words(given, "limit", "exclude", "settings")
    for key, value in (values or {}).items():
        if value not in (None, False, ""):
            words += ["--data", f"{key}={value}"]
    return [*words, *(["-" + "v" * given["verbose"]] if given.get("verbose") else [])]


def option_words(options: Mapping[str, Any], *names: str) -> list[str]:
    """Return the words by which pyinfra gets options of `run_options`."""
    pyinfra = {"settings": "data"}
    pairs = ((name, value) for name in names for value in options.get(name) or ())
    return [word for name, value in pairs for word in (f"--{pyinfra.get(name, name)}", value)]


def run_deploy(
    deploy: str,
    flags: Sequence[str] = (),
    values: Mapping[str, object] | None = None,
    **options: Any,
) -> None:
    """Replace this process by pyinfra, which runs a deploy of the site.

    Args:
        deploy, flags, values, options: As for `pyinfra_words`.
    """
    enter_site()
    replace_process("pyinfra", pyinfra_words(deploy, flags, values, options))


def replace_process(program: str, words: Sequence[str]) -> None:
    """Replace this process by pyinfra or pytest.

    What it prints about how to go on names the command that the user has typed.
    """
    os.environ.update(handed_on())
    sys.stdout.flush()
    start(program, words)
