"""Whose turn an upgrade is: one replica of a fleet, and the next one once that serves."""

from collections.abc import Mapping
from typing import NamedTuple


class Standing(NamedTuple):
    """A replica: whether held packages of it have a newer version, it is to boot, it serves."""

    old: bool
    due: bool
    serves: bool


def turn(replicas: Mapping[str, Standing]) -> tuple[str, str]:
    """Return the replica whose turn it is, "" for none; and what comes first, as a sentence."""
    waiting = next((name for name, each in replicas.items() if each.old), "")
    for name, each in replicas.items():
        if not each.old and each.due:
            return "", f"{name} has new packages, and runs the old ones: reboot it first."
        if waiting and not each.old and not each.serves:
            return "", f"{name} has the new packages, and does not serve: see what ails it first."
    return waiting, ""
