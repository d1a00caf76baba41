"""Finds the release to fall back to, and decides when it stops."""

from collections.abc import Mapping, Sequence
from typing import Any


def find_previous(
    new: str,
    boots: Sequence[str],
    running: Sequence[str],
    current: str,
    last: Mapping[str, Any],
    boot: str,
) -> tuple[str | None, bool]:
    """Return the release that boots now, where it is another one, and whether it runs.

    Where none boots, what somebody has started by hand counts.

    Args:
        new: the release that is to serve.
        boots, running: the releases that do.
        current: the one that should serve.
        last: the record of a switch that did not come to its end; empty without one.
        boot: names this boot.
    """
    if new in boots:
        return None, False
    # More than one is not our doing: the one that runs, or is current, is meant.
    meant = sorted(boots, key=lambda release: (release not in running, release != current))
    release = next(iter([*meant, *(each for each in running if each != new)]), None)
    if release is None:
        return None, False
    # A switch that was killed may have stopped it.
    stopped = (last.get("previous"), last.get("boot")) == (release, boot) and last["ran"]
    return release, release in running or bool(stopped)


def fits_beside(unit: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Tell whether both can run at once: the fabric of a pair is one pair's at a time.

    Args:
        unit, theirs: what is laid down of the new release, and of the previous one.
    """
    return not unit["fabric"] and not theirs.get("fabric", True)


def has_head(theirs: Mapping[str, Any]) -> bool:
    """Tell whether a release is the worker's part of a pair, whose engine ends with the head's."""
    return bool(theirs.get("fabric")) and theirs.get("rank") == 1
