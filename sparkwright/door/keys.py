"""python -m deploys.keys [--inventory FILE] COMMAND: the API keys of a fleet, each with a name.

list                   names, what each key opens, until when; no key
show [NAME]            a key; without a name that of our own tools
new                    the file of keys, with a first key: before the first deploy, or in place of
                       keys that are lost
add NAME [--for PLACES] [--until DAY]
                       a new key, which is shown; PLACES are replicas, `gateway` and `metrics`, with
                       commas between them; it opens everything without them
rotate NAME [--days N] a new key for a name, which is shown; the old ones end in N days (7)
remove NAME            its keys open nothing any more; the deploy ends what is in flight

They are in a file beside the inventory, which git ignores. A change takes effect once deployed, by
deploys/spark.py, and by deploys/gateway.py if there is a gateway. Where the inventory names a
`keys_command`, the keys are in a store of yours, and only `list` and `show` work.
"""

import argparse
import sys
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from sparkwright.common.errors import PlanError
from sparkwright.common.paths import inventory_file
from sparkwright.door.key import Key, checked_name, parse_keys
from sparkwright.door.keys_command import keys_said
from sparkwright.door.keys_file import (
    OWNER,
    append_key,
    line_of,
    make_file,
    new_secret,
    read_file,
    remove_keys,
    rotate_keys,
)
from sparkwright.fleet.file import load_fleet
from sparkwright.fleet.fleet import Fleet
from sparkwright.recipe.loader import recipe_names

_USUAL = Path("inventory/sparks.yaml")


def keys_path(fleet: Path) -> Path:
    """Where the keys of an inventory file are: ``sparks.yaml`` -> ``sparks.keys``."""
    return fleet.with_suffix(".keys")


def has_keys(fleet: Fleet) -> bool:
    """Tell whether a fleet has a file of keys, good or bad, or a command that gives them."""
    path = keys_path(fleet.source)
    return bool(fleet.keys_command) or path.exists() or path.is_symlink()


def fleet_keys(fleet: Fleet) -> list[Key]:
    """Return the API keys of a fleet, from the file beside its inventory or by its command.

    Returns:
        Keys, of which at least one opens everything.

    Raises:
        PlanError: There are none, some are invalid, or none opens everything.
    """
    source, keys = _read(fleet)
    own = not fleet.keys_command
    if not keys:
        remedy = (
            f"restore it, or remove it and run {_command(fleet.source)} new" if own else "NAME KEY"
        )
        raise PlanError(f"{source}: found no key; expected one a line: {remedy}")
    if not opening_all(keys):
        remedy = f"{_command(fleet.source)} add {OWNER}" if own else f"{OWNER} KEY"
        raise PlanError(
            f"{source}: found no key that opens everything, today; expected one for this project's "
            f"own tools: {remedy}"
        )
    return keys


def _read(fleet: Fleet) -> tuple[str, list[Key]]:
    """Return the name of the keys' source, for messages, and its valid lines."""
    path = keys_path(fleet.source)
    if fleet.keys_command:
        if path.exists() or path.is_symlink():
            raise PlanError(
                f"{path}: found a file of keys, and keys_command in {fleet.source}; expected one "
                f"of them: remove {path} once its keys are in the store that keys_command reads, "
                "or remove keys_command"
            )
        source = f"{fleet.source}: keys_command"
        text = keys_said(fleet.keys_command, source)
        source += ": its output"
    else:
        source = str(path)
        try:
            text = read_file(path)
        except FileNotFoundError:
            raise PlanError(
                f"{path}: found no such file; expected the API keys: get it from whoever deployed "
                "first. Before the first deploy there is none: pyinfra inventory.py "
                f"deploys/spark.py makes it, and so does {_command(fleet.source)} new"
            ) from None
    return source, parse_keys(text, source, fleet.replicas)


def opening_all(keys: Sequence[Key]) -> tuple[str, ...]:
    """Return the keys that open everything, today; our own tools use the first."""
    return tuple(key.secret for key in keys if not key.places and _is_valid(key))


def api_keys(fleet: Path) -> tuple[str, ...]:
    """Return the keys of an inventory file that open everything; our own tools use the first.

    Raises:
        PlanError: As `fleet_keys`, or the inventory is invalid.
    """
    return opening_all(fleet_keys(load_fleet(fleet, recipe_names())))


def named_key(fleet: Fleet, name: str, places: Sequence[str] = ()) -> str:
    """Return the newest key of a name; add one to the file if there is none.

    Args:
        fleet: Whose keys.
        name: Its owner.
        places: The places that a new one opens; none named means all.

    Raises:
        PlanError: As `fleet_keys`; or there is none, and the keys are given by a command.
    """
    valid = [key.secret for key in fleet_keys(fleet) if key.name == name and _is_valid(key)]
    if valid:
        return valid[0]
    _check_file(fleet, f"no key of {name}")
    return append_key(keys_path(fleet.source), Key(name, new_secret(), tuple(places)))


def first_keys() -> list[Key]:
    """Return what a run would make where there are no keys yet, for a plan."""
    return [Key(OWNER, new_secret())]


def make_keys(fleet: Fleet) -> str:
    """Make the file of keys, with a first key that opens everything.

    Returns:
        A sentence for the user; "" where another run has just made it.

    Raises:
        PlanError: It cannot be written.
    """
    path = keys_path(fleet.source)
    return f"wrote {path} (0600): the API keys; back it up" if make_file(path) else ""


def lost_keys(fleet: Fleet, keyed: Collection[str], read: Collection[str]) -> str | None:
    """Return why a run may not make new keys; None if no door has any."""
    path = keys_path(fleet.source)
    unread = [
        replica.sparks[0]
        for replica in fleet.replicas.values()
        if replica.api_key is None and replica.sparks[0] not in read
    ]
    if not (keyed or unread):
        return None
    if keyed:
        why = f"while the door of {' and of '.join(sorted(keyed))} has keys"
    else:
        why = f"and this run leaves out {' and '.join(unread)}, whose door may have keys"
    return (
        f"{path}: found no such file, {why}; expected the file that they came from: with new keys, "
        "clients that have the old ones get 401. Nothing was changed.\n"
        "  Get the file from whoever has it, such as the machine that deployed first: mode 600.\n"
        f"  Or, if there are no keys yet, or to replace them: {_command(fleet.source)} new"
    )


def _check_file(fleet: Fleet, found: str) -> None:
    """Refuse to change keys that a command gives."""
    if fleet.keys_command:
        raise PlanError(
            f"{fleet.source}: keys_command: found {found}, and keys that are in a store of yours; "
            "expected the change there: a line is NAME KEY [REPLICA,...] [YYYY-MM-DD], and openssl "
            "rand -hex 32 makes a key"
        )


def _command(inventory: Path) -> str:
    usual = inventory == _USUAL
    return "python -m deploys.keys" + ("" if usual else f" --inventory {inventory}")


def _is_valid(key: Key) -> bool:
    return datetime.now(UTC).timestamp() < key.ends


def _named(fleet: Fleet, name: str | None, keys: Sequence[Key]) -> list[Key]:
    """Return the keys of a name."""
    found = [key for key in keys if key.name == name]
    if not found:
        names = ", ".join(dict.fromkeys(key.name for key in keys))
        source = "keys_command" if fleet.keys_command else keys_path(fleet.source)
        raise PlanError(f"{source}: found no key of {name}; expected one of {names}")
    return found


def _table(keys: Sequence[Key]) -> str:
    rows = [("NAME", "OPENS", "UNTIL")]
    rows += [
        (
            key.name,
            ", ".join(key.places) or "everything",
            f"{key.until}{'' if _is_valid(key) else ' (over)'}" if key.until else "",
        )
        for key in keys
    ]
    first, second = (max(len(row[column]) for row in rows) for column in range(2))
    lines = (f"{name:<{first}}  {opens:<{second}}  {until}" for name, opens, until in rows)
    return "\n".join(map(str.rstrip, lines))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m deploys.keys",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--inventory", type=Path, default=inventory_file())
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("list")
    commands.add_parser("show").add_argument("name", nargs="?")
    commands.add_parser("new")
    add = commands.add_parser("add")
    add.add_argument("--for", dest="places", default="", metavar="PLACES")
    add.add_argument("--until", type=date.fromisoformat, metavar="DAY")
    rotate = commands.add_parser("rotate")
    rotate.add_argument("--days", type=int, default=7, metavar="N")
    for each in (add, rotate, commands.add_parser("remove")):
        each.add_argument("name", metavar="NAME")
    options = parser.parse_args(arguments)
    try:
        _run(load_fleet(options.inventory, recipe_names()), options)
    except PlanError as error:
        print(error, file=sys.stderr)
        return 1
    if options.command in ("add", "rotate", "remove"):
        print("In force once deployed: pyinfra inventory.py deploys/spark.py", file=sys.stderr)
    return 0


def _run(fleet: Fleet, options: argparse.Namespace) -> None:
    path = keys_path(fleet.source)
    if options.command not in ("list", "show"):
        _check_file(fleet, f"`{options.command}`")
    match options.command:
        case "list":
            print(_table(fleet_keys(fleet)))
        case "show":
            keys = fleet_keys(fleet)
            if options.name:
                print(_named(fleet, options.name, list(filter(_is_valid, keys)))[0].secret)
            else:
                print(opening_all(keys)[0])
        case "new":
            said = "" if has_keys(fleet) else make_keys(fleet)
            if not said:
                raise PlanError(
                    f"{path}: found the file; expected none: to replace all keys, move it away"
                )
            print(said)
        case "add":
            places = tuple(filter(None, options.places.split(",")))
            new = Key(checked_name(options.name), new_secret(), places, options.until)
            parse_keys(line_of(new), "a new key", fleet.replicas)
            _read(fleet)
            print(append_key(path, new))
        case "rotate":
            keys = _named(fleet, options.name, fleet_keys(fleet))
            print(rotate_keys(path, keys, options.days))
        case "remove":
            remove_keys(path, _named(fleet, options.name, _read(fleet)[1]))
