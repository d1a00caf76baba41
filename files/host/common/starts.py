"""The last starts of a seat, and what they took: ROOT/state/starts, a line of JSON each, the
oldest first.

`host.engine.startup` writes it. What is missing or damaged there is left out, and what follows from
it then has the bound that the recipe declares.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from host.common.seat import laid_down

if TYPE_CHECKING:
    # Programs that read a Spark in a moment do without it.
    from pathlib import Path

# When it ended, release, recipe, image, kind (cold, warm, standby), seconds in all and by phase,
# GiB of its KV cache as vLLM rounds them, and in a word why it failed; "" where it serves.
Start = dict[str, Any]
LATE = "late"
# By it a release's `run` knows the bytes of the cache; sparkwright/plan/release.
KV_CACHE = "SPARKWRIGHT_KV_CACHE"
# Bytes that are read of the file: a hundred starts have a third of it.
SIZE = 1 << 17
# How much longer than usual a start may take, and how many of a release tell what is usual: a cold
# start took 2.9 times a warm one (docs/performance.md).
FACTOR, ENOUGH = 3, 3


def read(root: Path | str) -> list[Start]:
    """Return the starts of a seat."""
    try:
        with open(f"{root}/state/starts", encoding="utf-8", errors="replace") as file:
            return [found for line in file.read(SIZE).splitlines() if (found := _start(line))]
    except OSError:
        return []


def alike(root: Path | str, release: str) -> list[Start]:
    """Return the starts of a release, and of others with its recipe and image."""
    own = known(root, release)
    return [each for each in read(root) if own.items() <= each.items()]


def served(root: Path | str, release: str, since: float = 0) -> Start | None:
    """Return the last start of a release after which it served, if that was since then."""
    good = [each for each in read(root) if each["release"] == release and not each["failed"]]
    return good[-1] if good and good[-1]["at"] >= since else None


def known(root: Path | str, release: str) -> dict[str, str]:
    """Return the recipe and the image of a release; "" where it is gone."""
    content = laid_down(root, release, "release.json")
    return {name: str(content.get(name, "")) for name in ("recipe", "image")}


def usual(starts: Sequence[Start]) -> float:
    """Return the seconds within which nine of ten starts served; 0 where none did."""
    took = sorted(each["seconds"] for each in starts if not each["failed"])
    return took[math.ceil(0.9 * len(took)) - 1] if took else 0.0


def bound(root: Path | str, release: str, least: int, most: int) -> int:
    """Return the seconds that a start of a release may take, by its own ones.

    Most where few are known, and after one that was late: so a bound that is too narrow, as when
    the caches are gone, costs one start.
    """
    own = [each for each in read(root) if each["release"] == release]
    if sum(not each["failed"] for each in own) < ENOUGH or own[-1]["failed"] == LATE:
        return most
    return min(most, max(least, math.ceil(FACTOR * usual(own))))


def kv_gib(root: Path | str, release: str) -> float:
    """Return the GiB of a release's KV cache; 0: the next start measures, as after a failure."""
    own = [each for each in read(root) if each["release"] == release]
    return own[-1]["kv_gib"] if own and not own[-1]["failed"] else 0.0


def kv_cache(root: Path | str, release: str, most: int) -> dict[str, str]:
    """Return what spares a start measuring: bytes of which none is too many, at most `most`."""
    size = int((kv_gib(root, release) - 0.005) * 2**30)
    return {KV_CACHE: str(size)} if 0 < size <= most else {}


def _start(line: str) -> Start | None:
    try:
        found = json.loads(line)
        words = ("release", "recipe", "image", "kind", "failed")
        return {
            **{name: str(found[name])[:400] for name in words},
            "at": _number(found["at"], 1e11),
            # No start may take more than a day.
            "seconds": _number(found["seconds"]),
            "kv_gib": _number(found.get("kv_gib", 0)),
            "phases": {str(name): _number(each) for name, each in found["phases"].items()},
        }
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _number(value: Any, most: float = 1e6) -> float:
    if not 0 <= (number := float(value)) < most:
        raise ValueError("no time")
    return number
