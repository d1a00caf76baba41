"""The API keys of a fleet, each with a name: in a file beside its inventory, which git ignores.

Where the inventory names a `keys_command`, they are in a store of its owner's, and nothing here
changes them.
"""

import secrets
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from sparkwright.common import yaml
from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import read_text, write_file
from sparkwright.common.schema import parse
from sparkwright.declared.fleet.file import load_fleet
from sparkwright.declared.fleet.fleet import Fleet, keys_said
from sparkwright.door.key import GATEWAY, Key, check_keys, parse_keys

# Bytes: a thousand keys have a tenth of it.
MOST = 1 << 20
# The name of the first key.
OWNER = "owner"
_HEAD = """\
# API keys of this fleet. Without `places` (replicas, gateway, metrics) a key opens every door and
# the gateway; `until` is the last day on which it does. The first key that opens everything is the
# one of this project's own tools. `sparkwright keys` writes this file anew, without other comments.
# A change is in force once it is deployed; no engine restarts.
"""


def keys_path(fleet: Path) -> Path:
    """Where the keys of an inventory file are: ``sparks.yaml`` -> ``sparks.keys``."""
    return fleet.with_suffix(".keys")


def has_keys(fleet: Fleet) -> bool:
    """Tell whether a fleet has a file of keys, good or bad, or a command that gives them."""
    path = keys_path(fleet.source)
    return bool(fleet.keys_command) or path.exists() or path.is_symlink()


def fleet_keys(fleet: Fleet) -> list[Key]:
    """Return the API keys of a fleet, of which at least one opens everything."""
    keys = [key for key in _all_keys(fleet) if fleet.gateway or key.name != GATEWAY]
    if not opening_all(keys):
        stored = f"{{name: {OWNER}, secret: …}} in your store"
        raise PlanError(
            f"{_source(fleet)}: found no key that opens everything, today; expected one for this "
            f"project's own tools: {stored if fleet.keys_command else next_line('keys add', OWNER)}"
        )
    return keys


def _source(fleet: Fleet) -> str:
    return f"{fleet.source}: keys_command" if fleet.keys_command else str(keys_path(fleet.source))


def _all_keys(fleet: Fleet) -> list[Key]:
    """Return the keys that a fleet's file or command gives; some may be over."""
    path, source = keys_path(fleet.source), _source(fleet)
    replicas = {*fleet.replicas, *fleet.whole}
    if fleet.keys_command:
        if path.exists():
            raise PlanError(
                f"{path}: found a file of keys, and keys_command in {fleet.source}; expected one "
                f"of them: remove {path} once its keys are in the store that keys_command reads, "
                "or remove keys_command"
            )
        text = keys_said(fleet)
        return parse_keys(text, f"{source}: its output", replicas)
    if (keys := read_file(path, replicas)) is None:
        raise PlanError(
            f"{path}: found no such file; expected the API keys: get it from whoever deployed "
            f"first. Before the first deploy there is none: {next_line('apply')} makes it, and "
            f"so does {next_line('keys new')}"
        )
    return keys


def opening_all(keys: Sequence[Key]) -> tuple[str, ...]:
    """Return the keys that open everything, today; our own tools use the first."""
    clients = (key for key in keys if key.name != GATEWAY)
    return tuple(key.secret for key in clients if not key.places and key.is_valid)


def gateway_key(keys: Sequence[Key]) -> Key | None:
    """Return the newest key of the gateway's own; None if there is none."""
    return next((key for key in keys if key.name == GATEWAY and key.is_valid), None)


def api_keys(fleet: Path) -> tuple[str, ...]:
    """Return the keys of an inventory file that open everything; our own tools use the first."""
    return opening_all(fleet_keys(load_fleet(fleet)))


def named_key(fleet: Fleet, name: str, places: Sequence[str] = ()) -> str:
    """Return the newest key of a name; add one to the file if there is none."""
    for key in fleet_keys(fleet):
        if key.name == name and key.is_valid:
            return key.secret
    return add_key(fleet, name, places)


def make_keys(fleet: Fleet) -> str:
    """Make the file with one new key, in one step. Returns a sentence about it.

    It returns "" where there is a file, such as another run has just made.
    """
    path = keys_path(fleet.source)
    is_new = _write(path, [Key(name=OWNER, secret=new_secret())], only_new=True)
    return f"wrote {path} (0600): the API keys; back it up" if is_new else ""


def new_file(fleet: Fleet) -> str:
    """Make the file of keys, which must not be there. Returns a sentence about it."""
    path = _own_file(fleet, "the first key")
    said = "" if has_keys(fleet) else make_keys(fleet)
    if not said:
        raise PlanError(f"{path}: found the file; expected none: to replace all keys, move it away")
    return said


def lost(fleet: Fleet, path: Path, issued: str, doors: Mapping[str, bool]) -> str | None:
    """Return why a run may not make new keys, or a new authority; None if no door has any.

    Args:
        path: Where they should be beside the inventory.
        issued: A field of `IssuedToDoors`; `doors` has it of each Spark that was read.
    """
    absent, what, new = {
        "keys": ("such file", "keys", next_line("keys new")),
        "certificate": ("certificate authority", "a certificate of one", f"mkdir -p {path}"),
    }[issued]
    keyed = (each for each in fleet.replicas.values() if issued != "keys" or not each.api_key)
    unread = [each.sparks[0] for each in keyed if each.sparks[0] not in doors]
    having = sorted(spark for spark, found in doors.items() if found)
    if not having and not unread:
        return None
    why = f"and this run leaves out {' and '.join(unread)}, whose door may have {what}"
    if having:
        why = f"while the door of {' and of '.join(having)} has {what}"
    return (
        f"{path}: found no {absent}, {why}; expected what it came from: clients of the doors "
        "cannot use a new one. Nothing was changed.\n"
        "  Get it from whoever has it, such as the machine that deployed first; nobody else may "
        f"read it.\n  Or, if there is none yet, or to replace it: {new}"
    )


def _own_file(fleet: Fleet, what: str) -> Path:
    """Return the file for a change of keys, unless a command gives them."""
    if fleet.keys_command:
        raise PlanError(
            f"{_source(fleet)}: found keys that are in a store of yours; expected {what} there, as "
            "docs/door.md shows: openssl rand -hex 32 makes a key"
        )
    return keys_path(fleet.source)


def _named(fleet: Fleet, name: str, keys: Sequence[Key]) -> list[Key]:
    found = [key for key in keys if key.name == name]
    if not found:
        names = ", ".join(dict.fromkeys(key.name for key in keys))
        raise PlanError(f"{_source(fleet)}: found no key of {name}; expected one of {names}")
    return found


def client_name(name: str) -> str:
    """Return a name, unless it is the gateway's own."""
    if name == GATEWAY:
        raise PlanError(f"found {name}, whose key a run makes; expected the name of a client")
    return name


def table(fleet: Fleet) -> str:
    """Return whose the keys are, what each opens, and until when; no key."""
    rows = [("NAME", "OPENS", "UNTIL")]
    for key in fleet_keys(fleet):
        opens = ", ".join(key.places) or "everything"
        opens = "replicas, for the gateway itself" if key.name == GATEWAY else opens
        rows.append((key.name, opens, f"{key.until or ''}{'' if key.is_valid else ' (over)'}"))
    first, second = (max(len(row[column]) for row in rows) for column in range(2))
    lines = (f"{name:<{first}}  {opens:<{second}}  {until}" for name, opens, until in rows)
    return "\n".join(map(str.rstrip, lines))


def shown_key(fleet: Fleet, name: str | None) -> str:
    """Return a key of a name; without a name, that of our own tools."""
    keys = fleet_keys(fleet)
    if name is None:
        return opening_all(keys)[0]
    return _named(fleet, client_name(name), [key for key in keys if key.is_valid])[0].secret


def add_key(fleet: Fleet, name: str, places: Sequence[str] = (), until: str | None = None) -> str:
    """Add a key to the file. Returns it."""
    path, source = _own_file(fleet, f"a key of {name}"), "a new key"
    entry = {"name": name, "secret": new_secret(), "places": [*places], "until": until}
    new = parse(Key, entry, source)
    keys = [*_all_keys(fleet), new]
    check_keys(keys, source, fleet.replicas)
    if not new.is_valid:
        raise PlanError(f"--until: found {until}, which is over; expected today or a later day")
    _write(path, keys)
    return new.secret


def rotate_key(fleet: Fleet, name: str, days: int) -> tuple[str, date | None]:
    """Make a new key for a name; the old ones stay valid for some days, or are removed.

    Returns it, and the last day of the old ones; None where they are removed.
    """
    path, keys = _own_file(fleet, f"the change of {name}"), _all_keys(fleet)
    old = _named(fleet, name, keys)
    new = Key(name=name, secret=new_secret(), places=old[0].places)
    changed, last = [new], None
    if days:
        last = datetime.now(UTC).date() + timedelta(days=days)
        changed += (key.model_copy(update={"until": min(key.until or last, last)}) for key in old)
    # Of a name the first one counts.
    first = keys.index(old[0])
    _write(path, [*keys[:first], *changed, *(key for key in keys[first:] if key not in old)])
    return new.secret, last


def remove_key(fleet: Fleet, name: str) -> None:
    """Remove the keys of a name, unless no other key opens everything."""
    path, keys = _own_file(fleet, f"the change of {name}"), _all_keys(fleet)
    gone = _named(fleet, name, keys)
    left = [key for key in keys if key not in gone]
    if opening_all(keys) and not opening_all(left):
        raise PlanError(
            f"{path}: found no other key than that of {name} that opens everything; expected one "
            "to stay, for this project's own tools. To replace it: "
            f"{next_line('keys rotate', f'{name} --days 0')}"
        )
    _write(path, left)


def new_secret() -> str:
    """Return a new key, of 256 random bits."""
    return f"sk-{secrets.token_urlsafe(32)}"


def read_file(path: Path, replicas: Collection[str]) -> list[Key] | None:
    """Return the keys of a file that only this user can read; None where there is none."""
    with yaml.lines_of(path):
        if (text := read_text(path, "the API keys, in a file of this user's own", MOST)) is None:
            if path.is_symlink():
                raise PlanError(f"{path}: found a link to nothing; expected the API keys")
            return None
        if (mode := path.stat().st_mode & 0o777) & 0o077:
            raise PlanError(
                f"{path}: found mode {mode:o}, with which others can read it; expected 600: "
                f"chmod 600 {path}"
            )
        return parse_keys(text, str(path), replicas)


def _write(path: Path, keys: Sequence[Key], only_new: bool = False) -> bool:
    entries = [key.model_dump(mode="json", exclude_defaults=True) for key in keys]
    return write_file(path, _HEAD + yaml.dump({"keys": entries}), 0o600, only_new=only_new)
