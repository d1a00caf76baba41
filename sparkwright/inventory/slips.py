"""The check of pyinfra's command line, before it reads the inventory: for config.py."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from sparkwright.common.command_line import next_line
from sparkwright.common.terminal import plain, wrapped
from sparkwright.run.ending import watch_end
from sparkwright.run.last_resort import keep_tracebacks_off_screen

# How an empty word is shown.
_NOTHING = '""'


def check_command_line() -> None:
    """Refuse what pyinfra would take for something else, such as a YAML file for Python.

    To be called by config.py, which pyinfra reads first. From then on Ctrl-C ends the run as ours.

    Raises:
        SystemExit: With all problems, and exit status 1.
    """
    context = click.get_current_context(silent=True)
    if context is None:
        raise SystemExit(f"found no run of pyinfra; expected: {next_line('apply')}")
    watch_end()
    keep_tracebacks_off_screen()
    if problems := list(slips_of(context.params)):
        text = "\n".join(plain(each) for each in problems)
        raise SystemExit(f"\n{wrapped(text, sys.stderr)}")


def slips_of(parameters: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with pyinfra's command line."""
    inventory, operations = parameters["inventory"], parameters["operations"]
    if problem := _inventory_problem(inventory, operations):
        yield problem
    for word in operations:
        if _is_inventory(word):
            yield f"found {word} in the place of a deploy; expected one, such as deploys/spark.py"
    for given in parameters.get("data") or ():
        name, sign, _ = given.partition("=")
        if not (name and sign):
            wanted = f"--data {name or 'NAME'}=VALUE"
            yield f"--data {given or _NOTHING}: found no value; expected {wanted}"


def _inventory_problem(inventory: str, operations: Sequence[str]) -> str | None:
    path = Path(inventory)
    if path.suffix == ".py":
        if not path.exists():
            # pyinfra would take it for a host's name, do nothing, and exit with 0.
            return f"found no file {inventory}; expected an inventory, such as inventory.py"
        if path.name == "config.py" or path.parent.name == "deploys":
            return f"found {inventory} in the place of the inventory; expected inventory.py"
        return None
    if inventory and path.is_dir():
        return f"found the folder {inventory} for an inventory; expected inventory.py"
    if (inventory and path.exists()) or path.suffix in (".yaml", ".yml"):
        return f"found {inventory}, which is no Python file; expected inventory.py, which reads it"
    if any(map(_is_ours, operations)):
        return (
            f"found {inventory or _NOTHING} for an inventory; expected inventory.py. One "
            "Spark or replica alone: pyinfra inventory.py … --limit NAME"
        )
    return None


def _is_ours(operation: str) -> bool:
    return Path(operation).parent.name == "deploys" or operation.startswith("sparkwright.")


def _is_inventory(word: str) -> bool:
    path = Path(word)
    return path.name == "inventory.py" or (path.suffix == ".py" and path.parent.name == "inventory")
