"""The owner's command that gives the API keys, such as ``pass show sparkwright/sparks``."""

import os
import selectors
import shlex
import subprocess
import threading
import time
from collections.abc import Sequence

from sparkwright.common.errors import PlanError
from sparkwright.common.terminal import waiting_for

# Bytes of its output: a thousand keys have a hundredth of it.
MOST = 1 << 20
# Seconds within which it ends: a person may have to type a passphrase.
PATIENCE = 120

# What each command has said in this process, or why it said nothing: a person is asked once.
_said: dict[tuple[str, ...], str | PlanError] = {}
_turn = threading.Lock()


def keys_said(command: Sequence[str], source: str) -> str:
    """Return what the owner's command prints: the text of a file of keys.

    It runs once a process, in the current folder and without a shell. It has this process's
    standard input and errors, so that it may ask a person. Its output is never shown.

    Raises:
        PlanError: It is missing, fails, takes too long, or prints nothing, too much or no text.
    """
    with _turn:
        words = tuple(command)
        if words not in _said:
            try:
                with waiting_for(f"keys_command: {shlex.join(words)}", PATIENCE):
                    _said[words] = _run(words, source)
            except PlanError as error:
                _said[words] = error
        said = _said[words]
    if isinstance(said, PlanError):
        raise said
    return said


def _run(words: tuple[str, ...], source: str) -> str:
    by_hand = f"run it by hand to see why: {shlex.join(words)}"
    try:
        process = subprocess.Popen(words, stdout=subprocess.PIPE)
    except OSError as error:
        what = f"{words[0]!r}, which cannot be run ({error.strerror})"
        raise PlanError(
            f"{source}: found {what}; expected a program of this machine, and its arguments"
        ) from None
    until = time.monotonic() + PATIENCE
    try:
        output = _output(process, until)
        if len(output) > MOST:
            raise PlanError(
                f"{source}: found more than {MOST:,} bytes; expected a line for each key: {by_hand}"
            )
        status = process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise PlanError(
            f"{source}: found a command that has not ended after {PATIENCE} s; expected the keys "
            f"on its standard output within that time: {by_hand}"
        ) from None
    finally:
        process.kill()
        process.wait()
        assert process.stdout
        process.stdout.close()
    if status:
        end = f"exit status {status}" if status > 0 else f"signal {-status}"
        raise PlanError(
            f"{source}: found a command that fails ({end}); expected the keys on its standard "
            f"output: {by_hand}"
        )
    try:
        text = output.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise PlanError(
            f"{source}: found output that is no text; expected a line for each key: NAME KEY. Name "
            "a command that decrypts it"
        )
    if not text.strip():
        raise PlanError(
            f"{source}: found a command that prints nothing; expected a line for each key, NAME "
            f"KEY: {by_hand}"
        )
    return text


def _output(process: "subprocess.Popen[bytes]", until: float) -> bytes:
    """Return what a process prints, up to a byte more than it may.

    Raises:
        TimeoutExpired: It has not ended its output in time.
    """
    assert process.stdout
    output = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while len(output) <= MOST:
            left = until - time.monotonic()
            if left <= 0 or not selector.select(left):
                raise subprocess.TimeoutExpired("", PATIENCE)
            piece = os.read(process.stdout.fileno(), MOST)
            if not piece:
                break
            output += piece
    return output
