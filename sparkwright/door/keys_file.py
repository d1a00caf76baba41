"""The file of API keys beside an inventory: made, read and written; nothing of it is ever shown."""

import os
import secrets
from collections.abc import Collection, Sequence
from pathlib import Path

from sparkwright.common import yaml
from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import read_text, unwritable, write_file, written
from sparkwright.door.key import Key, parse_keys

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


def new_secret() -> str:
    """Return a new key, of 256 random bits."""
    return f"sk-{secrets.token_urlsafe(32)}"


def make_file(path: Path) -> bool:
    """Write a file with one new key in one step. Tells whether this run is the first to do so."""
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write_file(new, _text([Key(name=OWNER, secret=new_secret())]), 0o600)
        try:
            path.hardlink_to(new)
        except FileExistsError:
            return False
        finally:
            new.unlink()
            del written[new.absolute()]
    except OSError as error:
        raise unwritable(path, error) from None
    written[path.absolute()] = None
    return True


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


def write_keys(path: Path, keys: Sequence[Key]) -> None:
    """Replace the keys of a file."""
    try:
        write_file(path, _text(keys), 0o600)
    except OSError as error:
        raise unwritable(path, error) from None


def _text(keys: Sequence[Key]) -> str:
    entries = [key.model_dump(mode="json", exclude_defaults=True) for key in keys]
    return _HEAD + yaml.dump({"keys": entries})
