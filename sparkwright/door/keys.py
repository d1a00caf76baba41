"""The API keys of a fleet, each with a name: in a file beside its inventory, which git ignores.

Where the inventory names a `keys_command`, they are in a store of its owner's, and nothing here
changes them.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError
from sparkwright.door.key import GATEWAY, Key, checked_name, parse_keys
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
        remedy = f"restore it, or remove it and run {next_line('keys new')}" if own else "NAME KEY"
        raise PlanError(f"{source}: found no key; expected one a line: {remedy}")
    if not opening_all(keys):
        remedy = next_line("keys add", OWNER) if own else f"{OWNER} KEY"
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
                f"first. Before the first deploy there is none: {next_line('apply')} makes it, and "
                f"so does {next_line('keys new')}"
            ) from None
    keys = parse_keys(text, source, fleet.replicas)
    return source, [key for key in keys if fleet.gateway or key.name != GATEWAY]


def opening_all(keys: Sequence[Key]) -> tuple[str, ...]:
    """Return the keys that open everything, today; our own tools use the first."""
    clients = (key for key in keys if key.name != GATEWAY)
    return tuple(key.secret for key in clients if not key.places and _is_valid(key))


def gateway_key(keys: Sequence[Key]) -> Key | None:
    """Return the newest key of the gateway's own; None if there is none."""
    return next((key for key in keys if key.name == GATEWAY and _is_valid(key)), None)


def api_keys(fleet: Path) -> tuple[str, ...]:
    """Return the keys of an inventory file that open everything; our own tools use the first.

    Raises:
        PlanError: As `fleet_keys`, or the inventory is invalid.
    """
    return opening_all(fleet_keys(load_fleet(fleet, recipe_names())))


def named_key(fleet: Fleet, name: str, places: Sequence[str] = ()) -> str:
    """Return the newest key of a name; add one to the file if there is none.

    Args:
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
        f"  Or, if there are no keys yet, or to replace them: {next_line('keys new')}"
    )


def _check_file(fleet: Fleet, found: str) -> None:
    """Refuse to change keys that a command gives."""
    if fleet.keys_command:
        raise PlanError(
            f"{fleet.source}: keys_command: found {found}, and keys that are in a store of yours; "
            "expected the change there: a line is NAME KEY [REPLICA,...] [YYYY-MM-DD], and openssl "
            "rand -hex 32 makes a key"
        )


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


def table(fleet: Fleet) -> str:
    """Return whose the keys are, what each opens, and until when; no key."""
    rows = [("NAME", "OPENS", "UNTIL")]
    rows += [
        (
            key.name,
            _opens(key),
            f"{key.until}{'' if _is_valid(key) else ' (over)'}" if key.until else "",
        )
        for key in fleet_keys(fleet)
    ]
    first, second = (max(len(row[column]) for row in rows) for column in range(2))
    lines = (f"{name:<{first}}  {opens:<{second}}  {until}" for name, opens, until in rows)
    return "\n".join(map(str.rstrip, lines))


def _opens(key: Key) -> str:
    if key.name == GATEWAY:
        return "replicas, for the gateway itself"
    return ", ".join(key.places) or "everything"


def shown_key(fleet: Fleet, name: str | None) -> str:
    """Return a key of a name; without a name, that of our own tools."""
    keys = fleet_keys(fleet)
    if name is None:
        return opening_all(keys)[0]
    return _named(fleet, checked_name(name), list(filter(_is_valid, keys)))[0].secret


def add_key(fleet: Fleet, name: str, places: Sequence[str], until: date | None) -> str:
    """Add a key to the file. Returns it.

    Args:
        name: Its owner.
        places: Replicas, `gateway` and `metrics`; none named means all.
        until: The last day on which it is valid; None for ever.

    Raises:
        PlanError: An argument is invalid, the day is over, or the file cannot be changed.
    """
    _check_file(fleet, "`add`")
    new = Key(checked_name(name), new_secret(), tuple(places), until)
    parse_keys(line_of(new), "a new key", fleet.replicas)
    if until and not _is_valid(new):
        raise PlanError(f"--until: found {until}, which is over; expected today or a later day")
    _read(fleet)
    return append_key(keys_path(fleet.source), new)


def rotate_key(fleet: Fleet, name: str, days: int) -> tuple[str, date | None]:
    """Make a new key for a name. Returns it, and the last day of the old ones; None: they are gone.

    Args:
        name: Their owner.
        days: For which the old ones stay valid; 0 removes them.
    """
    _check_file(fleet, "`rotate`")
    keys = _named(fleet, name, fleet_keys(fleet))
    last = datetime.now(UTC).date() + timedelta(days=days) if days else None
    return rotate_keys(keys_path(fleet.source), keys, last), last


def remove_key(fleet: Fleet, name: str) -> None:
    """Remove the keys of a name.

    Raises:
        PlanError: There are none, or nothing else opens everything, as our own tools need.
    """
    _check_file(fleet, "`remove`")
    keys = _read(fleet)[1]
    gone = _named(fleet, name, keys)
    if opening_all(keys) and not opening_all([key for key in keys if key not in gone]):
        raise PlanError(
            f"{keys_path(fleet.source)}: found no other key than that of {name} that opens "
            "everything; expected one to stay, for this project's own tools. To replace it: "
            f"{next_line('keys rotate', f'{name} --days 0')}"
        )
    remove_keys(keys_path(fleet.source), gone)


def new_file(fleet: Fleet) -> str:
    """Make the file of keys. Returns a sentence about it.

    Raises:
        PlanError: There is one, or it cannot be written.
    """
    _check_file(fleet, "`new`")
    said = "" if has_keys(fleet) else make_keys(fleet)
    if not said:
        raise PlanError(
            f"{keys_path(fleet.source)}: found the file; expected none: to replace all keys, move "
            "it away"
        )
    return said
