"""python -m deploys.keys [--inventory FILE] COMMAND: the API keys of a fleet, each with a name.

list                   names, what each key opens, until when; no key
show [NAME]            a key; without a name that of our own tools
add NAME [--for PLACES] [--until DAY]
                       a new key, which is shown; PLACES are replicas, `gateway` and `metrics`, with
                       commas between them; it opens everything without them
rotate NAME [--days N] a new key for a name, which is shown; the old ones end in N days (7)
remove NAME            its keys open nothing any more; the deploy ends what is in flight

They are in a file beside the inventory, which git ignores. A change takes effect once deployed, by
deploys/spark.py, and by deploys/gateway.py if there is a gateway.
"""

import argparse
import os
import secrets
import stat
import sys
import tempfile
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import write_file
from sparkwright.door.key import Key, checked_name, parse_keys
from sparkwright.fleet.file import load_fleet
from sparkwright.recipe.loader import recipe_names

# The name of the first key.
OWNER = "owner"
_FOOT = """\
# API keys of this fleet, a line each: NAME KEY [REPLICA,...] [YYYY-MM-DD]. Without replicas a key
# opens every door and the gateway; the day is the last on which it does. The first that opens
# everything is the one of this project's own tools. `python -m deploys.keys` changes the file; what
# is changed is in force once it is deployed. No engine restarts.
"""


def keys_path(fleet: Path) -> Path:
    """Where the keys of an inventory file are: ``sparks.yaml`` -> ``sparks.keys``."""
    return fleet.with_suffix(".keys")


def fleet_keys(
    fleet: Path, record: bool = True, replicas: Collection[str] | None = None
) -> list[Key]:
    """Read the API keys of a fleet; make the first one if there is no file yet.

    Args:
        fleet: The inventory file.
        record: Write the first one to the file, unlike in a dry run.
        replicas: Those of the fleet, to check the keys by; None to accept any.

    Returns:
        Keys, of which at least one opens everything.

    Raises:
        PlanError: The file holds no such key or an invalid one, other users can read it, or this
            user cannot.
    """
    path = keys_path(fleet)
    try:
        if not path.exists():
            if not record:
                return [Key(OWNER, _new_secret())]
            _make(path)
        mode = stat.S_IMODE(path.stat().st_mode)
        # Some editors begin a file with a byte order mark.
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise PlanError(
            f"{path}: found a file that cannot be read or made ({error.strerror}); expected one of "
            "this user's own, with a key a line"
        ) from None
    problems = []
    if mode & 0o077:
        problems.append(
            f"{path}: found mode {mode:o}, with which others can read it; expected 600: "
            f"chmod 600 {path}"
        )
    try:
        keys = parse_keys(text, str(path), replicas)
    except PlanError as error:
        raise PlanError(*problems, *error.problems) from None
    if not keys:
        problems.append(
            f"{path}: found no key; expected one a line: remove the file, and the next run makes "
            "one"
        )
    elif not any(map(_opens_all, keys)):
        problems.append(
            f"{path}: found no key that opens everything, today; expected one for this project's "
            f"own tools: python -m deploys.keys add {OWNER}"
        )
    if problems:
        raise PlanError(*problems)
    return keys


def api_keys(fleet: Path, record: bool = True) -> tuple[str, ...]:
    """Return the keys that open everything; our own tools use the first.

    Args:
        fleet, record: As for `fleet_keys`.

    Raises:
        PlanError: As `fleet_keys`.
    """
    return tuple(key.secret for key in fleet_keys(fleet, record) if _opens_all(key))


def named_key(fleet: Path, name: str, places: Sequence[str] = ()) -> str:
    """Return the newest key of a name; make one if there is none.

    Args:
        fleet: The inventory file.
        name: Its owner.
        places: The places that a new one opens; none named means all.

    Raises:
        PlanError: As `fleet_keys`.
    """
    valid = [key.secret for key in fleet_keys(fleet) if key.name == name and _is_valid(key)]
    return valid[0] if valid else _add(fleet, Key(name, _new_secret(), tuple(places)))


def _is_valid(key: Key) -> bool:
    return datetime.now(UTC).timestamp() < key.ends


def _opens_all(key: Key) -> bool:
    return not key.places and _is_valid(key)


def _new_secret() -> str:
    return f"sk-{secrets.token_urlsafe(32)}"


def _line(key: Key) -> str:
    words = (key.name, key.secret, ",".join(key.places), str(key.until or ""))
    return " ".join(filter(None, words))


def _make(path: Path) -> None:
    """Write a file with one new key in one step; of several runs at once, the first one counts."""
    # mkstemp's files have mode 600.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".keys")
    new = Path(name)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"{_line(Key(OWNER, _new_secret()))}\n{_FOOT}")
        try:
            path.hardlink_to(new)
        except FileExistsError:
            return
    finally:
        new.unlink()


def _add(fleet: Path, key: Key) -> str:
    """Append a key to the file; comments stay. Returns its secret."""
    _write(fleet, [*_read_lines(fleet), _line(key)])
    return key.secret


def _read_lines(fleet: Path) -> list[str]:
    return keys_path(fleet).read_text(encoding="utf-8-sig").rstrip("\n").splitlines()


def _write(fleet: Path, lines: Sequence[str]) -> None:
    """Replace the file if its new lines are valid."""
    path = keys_path(fleet)
    text = "\n".join(lines) + "\n"
    parse_keys(text, str(path))
    write_file(path, text, 0o600)


def _rotate(fleet: Path, name: str, days: int) -> str:
    """Insert a new key before the old ones of a name, which end in some days. Returns it."""
    keys = [key for key in fleet_keys(fleet) if key.name == name]
    if not keys:
        raise _unknown(fleet, name)
    last = datetime.now(UTC).date() + timedelta(days=days)
    new = Key(name, _new_secret(), keys[0].places)
    lines = []
    for line in _read_lines(fleet):
        old = next((key for key in keys if key.secret in line.split()), None)
        if old and old == keys[0]:
            lines.append(_line(new))
        if old:
            until = min(old.until or last, last)
            line = _line(Key(name, old.secret, old.places, until))
        lines.append(line)
    _write(fleet, lines)
    return new.secret


def _remove(fleet: Path, name: str) -> None:
    keys = {key.secret for key in fleet_keys(fleet) if key.name == name}
    if not keys:
        raise _unknown(fleet, name)
    _write(fleet, [line for line in _read_lines(fleet) if not keys & set(line.split())])


def _unknown(fleet: Path, name: str) -> PlanError:
    names = ", ".join(dict.fromkeys(key.name for key in fleet_keys(fleet)))
    return PlanError(f"{keys_path(fleet)}: found no key of {name}; expected one of {names}")


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
    parser.add_argument("--inventory", type=Path, default=Path("inventory/sparks.yaml"))
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    commands.add_parser("list")
    commands.add_parser("show").add_argument("name", nargs="?")
    add = commands.add_parser("add")
    add.add_argument("--for", dest="places", default="", metavar="PLACES")
    add.add_argument("--until", type=date.fromisoformat, metavar="DAY")
    rotate = commands.add_parser("rotate")
    rotate.add_argument("--days", type=int, default=7, metavar="N")
    for each in (add, rotate, commands.add_parser("remove")):
        each.add_argument("name", metavar="NAME")
    options = parser.parse_args(arguments)
    fleet: Path = options.inventory
    try:
        replicas = load_fleet(fleet, recipe_names()).replicas
        keys = fleet_keys(fleet, replicas=replicas)
        match options.command:
            case "list":
                print(_table(keys))
            case "show":
                wanted = filter(_is_valid if options.name else _opens_all, keys)
                key = next((key for key in wanted if options.name in (None, key.name)), None)
                if not key:
                    raise _unknown(fleet, options.name)
                print(key.secret)
            case "add":
                places = tuple(filter(None, options.places.split(",")))
                new = Key(checked_name(options.name), _new_secret(), places, options.until)
                parse_keys(_line(new), "a new key", replicas)
                print(_add(fleet, new))
            case "rotate":
                print(_rotate(fleet, options.name, options.days))
            case "remove":
                _remove(fleet, options.name)
    except PlanError as error:
        print(error, file=sys.stderr)
        return 1
    if options.command in ("add", "rotate", "remove"):
        print("In force once deployed: pyinfra inventory.py deploys/spark.py", file=sys.stderr)
    return 0
