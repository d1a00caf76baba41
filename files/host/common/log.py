"""The messages of a program: lines of the journal, and the status of its unit."""

import os
import socket
import sys
from contextlib import suppress

_shown = ""


def notify(*assignments: str) -> None:
    """Tell systemd something, as sd_notify(3) does; nothing happens outside a unit."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    # systemd may be exchanging itself for a newer one.
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.sendto("\n".join(assignments).encode(), address)


def show(text: str) -> None:
    """Make `text` what `systemctl status` says; a line of the log, too, if it is new."""
    global _shown
    # It may have another Spark's words in it.
    text = "".join(each if each.isprintable() else "?" for each in " ".join(text.split()))
    if text != _shown:
        _shown = text
        notify(f"STATUS={text}")
        log(text)


def log(text: str) -> None:
    """Write a line for the journal; standard output is for what a program is asked for."""
    print(text, file=sys.stderr, flush=True)
