"""API keys of a fleet, in a file beside its inventory that git does not see."""

import os
import re
import secrets
import stat
import tempfile
from pathlib import Path

from deploys.plan.errors import PlanError

# What a header can carry as a bearer token (RFC 6750, 2.1).
_KEY = re.compile(r"[A-Za-z0-9._~+/-]+=*")
# 20 characters of base64 are 120 bits: nobody guesses that. The keys made here have 256.
SHORTEST = 20
_FOOT = """\
# API keys of this fleet, one a line; each of them opens every door. The first is the one that this
# project's own tools use. A new one: add a line, deploy, give it to your clients, remove the old
# line, deploy. No engine restarts.
"""


def keys_path(fleet: Path) -> Path:
    """Where the keys of an inventory file are: ``sparks.yaml`` -> ``sparks.keys``."""
    return fleet.with_suffix(".keys")


def api_keys(fleet: Path) -> tuple[str, ...]:
    """Read the API keys of a fleet; make the first one where there is no file yet.

    Args:
        fleet: The inventory file.

    Returns:
        At least one key; the first is the one that our own tools use.

    Raises:
        PlanError: The file holds no key or a bad one, others than its owner can read it, or this
            user cannot.
    """
    path = keys_path(fleet)
    try:
        if not path.exists():
            _make(path)
        mode = stat.S_IMODE(path.stat().st_mode)
        # Some editors begin a file with a mark of its encoding.
        text = path.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise PlanError(
            f"{path}: found a file that cannot be read or made ({error.strerror}); expected one of "
            "this user's own, with a key a line"
        ) from None
    lines = [line.strip() for line in text.splitlines()]
    keys = {n: line for n, line in enumerate(lines, 1) if line and not line.startswith("#")}
    problems = []
    if mode & 0o077:
        problems.append(
            f"{path}: found mode {mode:o}, with which others can read it; expected 600: "
            f"chmod 600 {path}"
        )
    if not keys:
        problems.append(
            f"{path}: found no key; expected one a line: remove the file, and the next run makes "
            "one"
        )
    problems += [f"{path}: line {n}: {bad}" for n, key in keys.items() if (bad := _problem(key))]
    if problems:
        raise PlanError(*problems)
    return tuple(dict.fromkeys(keys.values()))


def _problem(key: str) -> str | None:
    """Say what is wrong with a key, without showing it."""
    if not _KEY.fullmatch(key):
        return "found other characters in a key; expected letters, digits and any of . _ ~ + / - ="
    if len(key) < SHORTEST:
        return (
            f"found a key of {len(key)} characters; expected at least {SHORTEST}: "
            "python3 -c \"import secrets; print('sk-' + secrets.token_urlsafe(32))\""
        )
    return None


def _make(path: Path) -> None:
    """Write a file with one new key, in one step: of several at a time, the first one counts."""
    # mkstemp's files have mode 600.
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".keys")
    new = Path(name)
    try:
        with os.fdopen(handle, "w") as file:
            file.write(f"sk-{secrets.token_urlsafe(32)}\n{_FOOT}")
        try:
            path.hardlink_to(new)
        except FileExistsError:
            return
    finally:
        new.unlink()
