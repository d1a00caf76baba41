"""One thing that is not as declared, and how all of them are told."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

# Exit statuses: as `git diff --exit-code`, grep and the like tell them, but 1 is pyinfra's for
# "something went wrong".
SAME, UNKNOWN, DIFFERENT = 0, 1, 2


class Difference(NamedTuple):
    """One thing that is not as declared.

    Attributes:
        what: a file, a unit, a package: what a person would look at.
        expected, found: in few words.
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
    """Return the result for machines.

    Args:
        found: the differences of each Spark that was looked at.
        unread: why a Spark was not, by its name.
        now: seconds since the epoch.
    """
    told = {
        "time": round(now),
        "sparks": sorted(found),
        "differences": [
            {"spark": spark, **difference._asdict()}
            for spark in sorted(found)
            for difference in found[spark]
        ],
        "not_read": [{"spark": spark, "reason": unread[spark]} for spark in sorted(unread)],
    }
    return json.dumps(told, indent=2, ensure_ascii=False)


def exit_status(found: Mapping[str, Sequence[Difference]], unread: Collection[str]) -> int:
    """Return 0 where all is as declared, 2 where something differs, 1 where one is not known."""
    if unread:
        return UNKNOWN
    return DIFFERENT if any(found.values()) else SAME
