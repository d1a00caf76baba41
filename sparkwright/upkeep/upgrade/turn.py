"""Whose turn an upgrade is: one replica of a fleet, and the next one once that serves."""

from collections.abc import Sequence
from typing import NamedTuple


class Standing(NamedTuple):
    """A Spark of a replica: it has older packages, or is to boot for new ones; it serves."""

    replica: str
    old: bool
    due: bool
    serves: bool


def turn(sparks: Sequence[Standing]) -> tuple[str, str]:
    """Return the replica whose turn it is, "" for none; and what comes first, as a sentence."""
    waiting = [each.replica for each in sparks if each.old]
    for each in sparks if waiting else ():
        if each.replica not in waiting and each.due:
            return "", f"{each.replica} has new packages, and runs the old ones: reboot it first."
        if each.replica not in waiting and not each.serves:
            return "", f"{each.replica} has no old packages, and does not serve: see to it first."
    return next(iter(waiting), ""), ""
