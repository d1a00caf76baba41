"""Differences from what is declared, as text, JSON and exit status."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

# Exit statuses. Unlike with `git diff --exit-code`, 1 means an error, as it is pyinfra's own.
SAME, UNKNOWN, DIFFERENT = 0, 1, 2


class Difference(NamedTuple):
    """One thing that is not as declared.

    Attributes:
        what: a file, a unit, a package: the thing that people would look at.
        expected, found: in a few words.
    """

    what: str
    expected: str
    found: str


def line(spark: str, difference: Difference) -> str:
    """Return one line for people."""
    return f"{spark}: {difference.what}: expected {difference.expected}, found {difference.found}"


def as_json(
    found: Mapping[str, Sequence[Difference]], unread: Mapping[str, str], now: float
) -> str:
    """Return the result as JSON."""
    result = {
        "time": round(now),
        "sparks": sorted(found),
        "differences": [
            {"spark": spark, **difference._asdict()}
            for spark in sorted(found)
            for difference in found[spark]
        ],
        "not_read": [{"spark": spark, "reason": unread[spark]} for spark in sorted(unread)],
    }
    return json.dumps(result, indent=2, ensure_ascii=False)


def exit_status(found: Mapping[str, Sequence[Difference]], unread: Collection[str]) -> int:
    """Return 0 if all is as declared, 2 if something differs, 1 if a Spark could not be read."""
    if unread:
        return UNKNOWN
    return DIFFERENT if any(found.values()) else SAME
