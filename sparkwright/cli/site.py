"""The site that a command works on: the folder with inventory.py, and its inventory."""

from __future__ import annotations

import os
from pathlib import Path

import click

from sparkwright.common.command_line import next_line
from sparkwright.common.paths import INVENTORY_VARIABLE, inventory_file

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
    """Change to the site: this folder, or the nearest one above it that has an inventory.py.

    Raises:
        click.ClickException: There is none.
    """
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
    """Have this process and those that it starts use ``inventory/NAME.yaml``.

    Args:
        name: A name, or the path of the file; None leaves it as it is.

    Raises:
        click.BadParameter: It is no name of a file.
    """
    if name is None:
        return
    stem = Path(name).stem if name.endswith((".yaml", ".yml")) else name
    if not stem or stem != Path(stem).name or stem.startswith("."):
        raise click.BadParameter(f"found {name!r}; expected a name, such as staging")
    os.environ[INVENTORY_VARIABLE] = stem


def chosen_inventory() -> Path:
    """Return the path of the inventory file, relative to the site.

    Raises:
        click.ClickException: There is no such file.
    """
    path = inventory_file()
    if not path.exists():
        known = sorted(each.stem for each in path.parent.glob("*.yaml") if "." not in each.stem)
        expected = (
            f"one of {', '.join(known)}" if known else f"your Sparks in it: {next_line('init')}"
        )
        raise click.ClickException(f"{path}: found no such file; expected {expected}")
    return path
