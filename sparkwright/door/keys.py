"""python -m deploys.keys [--inventory FILE] COMMAND: the API keys of a fleet, each with a name.

list                   names, what each key opens, until when; no key
show [NAME]            a key; without a name that of our own tools
add NAME [--for PLACES] [--until DAY]
                       a new key, which is shown; PLACES are replicas, `gateway` and `metrics`, with
                       commas between them; it opens everything without them
rotate NAME [--days N] a new key for a name, which is shown; the old ones end in N days (7)
remove NAME            its keys open nothing any more; the deploy ends what is in flight

They are in a file beside the inventory, that git does not see. A change is in force once it is
deployed: deploys/spark.py, and deploys/gateway.py where there is one.
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
    """Read the API keys of a fleet; make the first one where there is no file yet.

    Args:
        fleet: The inventory file.
        record: Write a first one down; in a dry run it stands for the one that a run would make.
        replicas: Those of the fleet, which keys may be for; None where it does not matter.

    Returns:
        At least one that opens everything.

    Raises:
        PlanError: The file holds no such key or a bad one, others than its owner can read it, or
            this user cannot.
    """
    path = keys_path(fleet)
    try:
        if not path.exists():
            if not record:
                return [Key(OWNER, _new())]
            _make(path)
        mode = stat.S_IMODE(path.stat().st_mode)
        # Some editors begin a file with a mark of its encoding.
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
    """Return the keys that open everything; the first is the one that our own tools use.

    Args:
        fleet: The inventory file.
        record: As `fleet_keys` takes it.

    Raises:
        PlanError: As `fleet_keys`.
    """
    return tuple(key.secret for key in fleet_keys(fleet, record) if _opens_all(key))


def named_key(fleet: Path, name: str, places: Sequence[str] = ()) -> str:
    """Return the newest key of a name; make one where there is none.

    Args:
        fleet: The inventory file.
        name: Whose it is.
        places: What a new one is for; everything without them.

    Raises:
        PlanError: As `fleet_keys`.
    """
    found = [key.secret for key in fleet_keys(fleet) if key.name == name and _holds(key)]
    return found[0] if found else _add(fleet, Key(name, _new(), tuple(places)))


def _holds(key: Key) -> bool:
    return datetime.now(UTC).timestamp() < key.ends


def _opens_all(key: Key) -> bool:
    return not key.places and _holds(key)


def _new() -> str:
    return f"sk-{secrets.token_urlsafe(32)}"


def _line(key: Key) -> str:
    words = (key.name, key.secret, ",".join(key.places), str(key.until or ""))
    return " ".join(filter(None, words))


def _make(path: Path) -> None:
    """Write a file with one new key, in one step: of several at a time, the first one counts."""
    # mkstemp's files have mode 600.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".keys")
    new = Path(name)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"{_line(Key(OWNER, _new()))}\n{_FOOT}")
        try:
            path.hardlink_to(new)
        except FileExistsError:
            return
    finally:
        new.unlink()


def _add(fleet: Path, key: Key) -> str:
    """Put a key at the end of the file; what its owner wrote there stays. Returns the key."""
    path = keys_path(fleet)
    text = path.read_text().rstrip("\n")
    _write(fleet, f"{text}\n{_line(key)}\n")
    return key.secret


def _write(fleet: Path, text: str) -> None:
    """Replace the file, once what is to be in it has been judged."""
    path = keys_path(fleet)
    parse_keys(text, str(path))
    write_file(path, text, 0o600)


def _rotate(fleet: Path, name: str, days: int) -> str:
    """Put a new key before the ones of a name, which end in some days. Returns the new one."""
    keys = [key for key in fleet_keys(fleet) if key.name == name]
    if not keys:
        raise _unknown(fleet, name)
    last = datetime.now(UTC).date() + timedelta(days=days)
    new = Key(name, _new(), keys[0].places)
    lines = []
    for line in keys_path(fleet).read_text(encoding="utf-8-sig").splitlines():
        old = next((key for key in keys if key.secret in line.split()), None)
        if old and old == keys[0]:
            lines.append(_line(new))
        if old:
            until = min(old.until or last, last)
            line = _line(Key(name, old.secret, old.places, until))
        lines.append(line)
    _write(fleet, "\n".join(lines) + "\n")
    return new.secret


def _remove(fleet: Path, name: str) -> None:
    keys = {key.secret for key in fleet_keys(fleet) if key.name == name}
    if not keys:
        raise _unknown(fleet, name)
    lines = keys_path(fleet).read_text(encoding="utf-8-sig").splitlines()
    kept = [line for line in lines if not keys & set(line.split())]
    _write(fleet, "\n".join(kept) + "\n")


def _unknown(fleet: Path, name: str) -> PlanError:
    names = ", ".join(dict.fromkeys(key.name for key in fleet_keys(fleet)))
    return PlanError(f"{keys_path(fleet)}: found no key of {name}; expected one of {names}")


def _table(keys: Sequence[Key]) -> str:
    rows = [("NAME", "OPENS", "UNTIL")]
    rows += [
        (
            key.name,
            ", ".join(key.places) or "everything",
            f"{key.until}{'' if _holds(key) else ' (over)'}" if key.until else "",
        )
        for key in keys
    ]
    first, second = (max(len(row[column]) for row in rows) for column in range(2))
    lines = (f"{name:<{first}}  {opens:<{second}}  {until}" for name, opens, until in rows)
    return "\n".join(map(str.rstrip, lines))


def main(arguments: Sequence[str] | None = None) -> int:
    """Do one command. Returns the exit status."""
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
    given = parser.parse_args(arguments)
    fleet: Path = given.inventory
    try:
        replicas = load_fleet(fleet, recipe_names()).replicas
        keys = fleet_keys(fleet, replicas=replicas)
        match given.command:
            case "list":
                print(_table(keys))
            case "show":
                found = [key for key in keys if given.name in (None, key.name) and _holds(key)]
                if given.name is None:
                    found = list(filter(_opens_all, found))
                if not found:
                    raise _unknown(fleet, given.name)
                print(found[0].secret)
            case "add":
                places = tuple(filter(None, given.places.split(",")))
                new = Key(checked_name(given.name), _new(), places, given.until)
                parse_keys(_line(new), "a new key", replicas)
                print(_add(fleet, new))
            case "rotate":
                print(_rotate(fleet, given.name, given.days))
            case "remove":
                _remove(fleet, given.name)
    except PlanError as error:
        print(error, file=sys.stderr)
        return 1
    if given.command in ("add", "rotate", "remove"):
        print("In force once deployed: pyinfra inventory.py deploys/spark.py", file=sys.stderr)
    return 0
