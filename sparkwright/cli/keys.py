"""`sparkwright keys`: who may ask the Sparks."""

from __future__ import annotations

import click

from sparkwright.cli.run import InOrder, site_fleet
from sparkwright.common.command_line import next_line
from sparkwright.declared.fleet.fleet import Fleet
from sparkwright.door import keys as door_keys


@click.group(cls=InOrder)
def keys() -> None:
    """The API keys: list, show, new, add, rotate, remove.

    They are in a file beside the inventory, which git ignores. A change takes
    effect by the next `apply`, and by `gateway` where there is one; no engine
    restarts. Where the inventory names a `keys_command`, the keys are in a
    store of yours, and only `list` and `show` work.
    """


@keys.command("list")
def list_() -> None:
    """Show names, what each key opens, until when; no key."""
    click.echo(door_keys.table(site_fleet()))


@keys.command()
@click.argument("name", required=False)
def show(name: str | None) -> None:
    """Show a key; without a NAME, that of Sparkwright's own tools."""
    click.echo(door_keys.shown_key(site_fleet(), name))


@keys.command()
def new() -> None:
    """Make the file of keys, with a first key.

    Before the first `apply`, or in place of keys that are lost.
    """
    click.echo(door_keys.new_file(site_fleet()))


@keys.command()
@click.argument("name")
@click.option(
    "--for",
    "places",
    default="",
    metavar="PLACES",
    help="Replicas, `gateway` and `metrics`, with commas between them (default: everything).",
)
@click.option("--until", metavar="DAY", help="Its last day, such as 2027-03-31.")
def add(name: str, places: str, until: str | None) -> None:
    """Make a new key, and show it.

    Example: sparkwright keys add ann --for chat,gateway --until 2027-03-31
    """
    fleet, named = site_fleet(), [*filter(None, places.split(","))]
    click.echo(door_keys.add_key(fleet, door_keys.client_name(name), named, until))
    ends = f" until {until}" if until else ""
    _conclude(fleet, f"{name} has a new key for {places or 'everything'}{ends}.")


@keys.command()
@click.argument("name")
@click.option(
    "--days",
    type=click.IntRange(0, 3650),
    default=7,
    show_default=True,
    metavar="N",
    help="For which the old ones stay valid; 0: they are removed.",
)
def rotate(name: str, days: int) -> None:
    """Make a new key for a name, and show it; the old ones end."""
    fleet = site_fleet()
    secret, last = door_keys.rotate_key(fleet, name, days)
    click.echo(secret)
    ends = f"the old ones open until {last} (UTC)" if last else "the old ones are removed"
    _conclude(fleet, f"{name} has a new key; {ends}.", "Until then, the doors know the old ones.")


@keys.command()
@click.argument("name")
def remove(name: str) -> None:
    """Remove the keys of a name: they open nothing any more.

    The next `apply` ends what is in flight with them.
    """
    fleet = site_fleet()
    door_keys.remove_key(fleet, name)
    _conclude(fleet, f"The keys of {name} are removed.", "Until then, they open the doors.")


def _conclude(fleet: Fleet, done: str, meanwhile: str = "") -> None:
    verbs = ["apply", *(["gateway"] if fleet.gateway else [])]
    how = " and ".join(map(next_line, verbs))
    click.echo(f"{done} In force once deployed: {how}. {meanwhile}".rstrip(), err=True)
