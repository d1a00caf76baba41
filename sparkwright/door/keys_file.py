"""The file of API keys beside an inventory: made, read and changed; nothing of it is ever shown."""

import os
import re
import secrets
import stat
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Never

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import content_of, write_file, written
from sparkwright.door.key import Key, parse_keys

# The name of the first key.
OWNER = "owner"
_FOOT = """\
# API keys of this fleet, a line each: NAME KEY [REPLICA,...] [YYYY-MM-DD]. Without replicas a key
# opens every door and the gateway; the day is the last on which it does. The first that opens
# everything is the one of this project's own tools. `sparkwright keys` changes the file; what is
# changed is in force once it is deployed. No engine restarts.
"""
# How files of age, gpg, sops and ansible-vault begin.
_ENCRYPTED = re.compile(r"-----BEGIN |age-encryption\.org|\$ANSIBLE_VAULT|\{|[\w-]+: ENC\[")
_EXPECTED = "lines of NAME KEY [REPLICA,...] [YYYY-MM-DD]"


def new_secret() -> str:
    """Return a new key, of 256 random bits."""
    return f"sk-{secrets.token_urlsafe(32)}"


def line_of(key: Key) -> str:
    """Return the line of a key."""
    words = (key.name, key.secret, ",".join(key.places), str(key.until or ""))
    return " ".join(filter(None, words))


def make_file(path: Path) -> bool:
    """Write a file with one new key in one step; of several runs at once, the first one counts.

    Returns:
        Whether this run was the first.

    Raises:
        PlanError: It cannot be written.
    """
    try:
        # mkstemp's files have mode 600.
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".keys")
        new = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(f"{line_of(Key(OWNER, new_secret()))}\n{_FOOT}")
                file.flush()
                os.fsync(file.fileno())
            try:
                path.hardlink_to(new)
            except FileExistsError:
                return False
        finally:
            new.unlink()
    except OSError as error:
        _unwritten(path, error)
    written[path.absolute()] = None
    return True


def read_file(path: Path) -> str:
    """Return the text of a file of keys, which only this user can read.

    Raises:
        FileNotFoundError: There is none.
        PlanError: It is no such file, this user cannot read it, or others can.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        content = content_of(path)
    except FileNotFoundError:
        if path.is_symlink():
            raise PlanError(
                f"{path}: found a link to a file that is not there; expected the file of API keys"
            ) from None
        raise
    except OSError as error:
        what = "a folder" if path.is_dir() else f"a file that cannot be read ({error.strerror})"
        raise PlanError(
            f"{path}: found {what}; expected a file of this user's own, with {_EXPECTED}"
        ) from None
    try:
        # Some editors begin a file with a byte order mark.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text or _ENCRYPTED.match(text):
        raise PlanError(
            f"{path}: found a file that is encrypted, or no text; expected {_EXPECTED}. Rename an "
            "encrypted one, and name the command that decrypts it in the inventory, such as "
            f"keys_command: [sops, --decrypt, {path}.enc]"
        )
    if mark := re.search("^(<{7}|={7}|>{7})( |$)", text, re.MULTILINE):
        raise PlanError(
            f"{path}: line {text[: mark.start()].count(chr(10)) + 1}: found git's marks of a merge "
            "conflict; expected none: keep the lines of the keys that are to open the doors"
        )
    if mode & 0o077:
        raise PlanError(
            f"{path}: found mode {mode:o}, with which others can read it; expected 600: "
            f"chmod 600 {path}"
        )
    return text


def _lines(path: Path) -> list[str]:
    return read_file(path).rstrip("\n").splitlines()


def _write(path: Path, lines: Sequence[str]) -> None:
    """Replace the file if its new lines are valid."""
    text = "\n".join(lines) + "\n"
    parse_keys(text, str(path))
    try:
        write_file(path, text, 0o600)
    except OSError as error:
        _unwritten(path, error)


def _unwritten(path: Path, error: OSError) -> Never:
    raise PlanError(
        f"{path}: cannot be written ({error.strerror}); expected a folder that this user can write "
        "to, and room on its disk"
    ) from None


def append_key(path: Path, key: Key) -> str:
    """Append a key; comments stay. Returns its secret."""
    _write(path, [*_lines(path), line_of(key)])
    return key.secret


def rotate_keys(path: Path, keys: Sequence[Key], last: date | None) -> str:
    """Insert a new key before the old ones of a name. Returns it.

    Args:
        keys: The old ones, at least one.
        last: The last day of the old ones; None to remove them.
    """
    new = Key(keys[0].name, new_secret(), keys[0].places)
    lines = []
    for line in _lines(path):
        old = next((key for key in keys if key.secret in line.split()), None)
        if old and old == keys[0]:
            lines.append(line_of(new))
        if old:
            if last is None:
                continue
            until = min(old.until or last, last)
            line = line_of(Key(new.name, old.secret, old.places, until))
        lines.append(line)
    _write(path, lines)
    return new.secret


def remove_keys(path: Path, keys: Sequence[Key]) -> None:
    """Remove the lines of keys."""
    secrets_of = {key.secret for key in keys}
    _write(path, [line for line in _lines(path) if not secrets_of & set(line.split())])
