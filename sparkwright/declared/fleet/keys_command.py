"""The owner's command that gives the API keys, such as ``pass show sparkwright/sparks``."""

import shlex
import subprocess
import threading
from collections.abc import Sequence

from sparkwright.common.errors import PlanError
from sparkwright.common.terminal import waiting_for
from sparkwright.declared.fleet.fleet import Fleet

# Seconds within which it ends: a person may have to type a passphrase.
PATIENCE = 120

# What each command has printed in this process, and what was wrong: a person is asked once.
_said: dict[tuple[str, ...], tuple[str, str]] = {}
_turn = threading.Lock()


def keys_said(fleet: Fleet) -> str:
    """Return what the owner's command prints: the text of a file of keys.

    It runs once a process, in the current folder and without a shell. It has this process's
    standard input and errors, so that it may ask a person. Its output is never shown.
    """
    words = fleet.keys_command
    with _turn:
        if words not in _said:
            with waiting_for(f"keys_command: {shlex.join(words)}", PATIENCE):
                _said[words] = _run(words)
    text, wrong = _said[words]
    if wrong:
        raise PlanError(
            f"{fleet.source}: keys_command: found a command that {wrong}; expected the "
            f"keys on its standard output. Run it by hand to see why: {shlex.join(words)}"
        )
    return text


def _run(words: Sequence[str]) -> tuple[str, str]:
    """Return what a command prints, and what is wrong with it."""
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, timeout=PATIENCE, check=False)
    except OSError as error:
        return "", f"cannot be run ({error.strerror})"
    except subprocess.TimeoutExpired:
        return "", f"has not ended after {PATIENCE} s"
    if status := done.returncode:
        return "", f"fails ({f'exit status {status}' if status > 0 else f'signal {-status}'})"
    text = done.stdout.decode("utf-8-sig", "replace")
    return text, "" if text.strip() else "prints nothing"
