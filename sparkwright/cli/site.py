"""The site that a command works on: the folder with inventory.py, and its inventory."""

from __future__ import annotations

import os
from pathlib import Path

import click

from sparkwright.common.command_line import next_line
from sparkwright.common.paths import INVENTORY_VARIABLE

ENTRY = "inventory.py"


class InOrder(click.Group):
    """A group that lists its commands in the order of their definition."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return [*self.commands]


def is_site(folder: Path) -> bool:
    """Tell whether a folder is a site, or a clone, which can be one."""
    return (folder / ENTRY).is_file() and (folder / "deploys").is_dir()


def enter_site() -> None:
    """Change to the site: this folder, or the nearest one above it that has an inventory.py."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if is_site(folder):
            os.chdir(folder)
            return
    raise click.ClickException(
        f"found no site in {here}, nor above it; expected a folder with {ENTRY}: cd to yours, or "
        f"make one: {next_line('init', 'my-sparks')}"
    )


def choose_inventory(name: str | None) -> None:
    """Have this process and those that it starts use ``inventory/NAME.yaml``, or that file."""
    if name is None:
        return
    stem = Path(name).stem if name.endswith((".yaml", ".yml")) else name
    if not stem or stem != Path(stem).name or stem.startswith("."):
        raise click.BadParameter(f"found {name!r}; expected a name, such as staging")
    os.environ[INVENTORY_VARIABLE] = stem
