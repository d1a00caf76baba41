"""What clients were allowed to see while something happened."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.campaign.plan import BROKEN, REFUSED, UNREACHABLE, WHOLE
from tests.driver.load import BROKE_OFF, Answer

# Beyond all that may be seen.
NEVER = UNREACHABLE + 1
_SEEN = {WHOLE: "whole answers", REFUSED: "503", BROKEN: "broken answers", UNREACHABLE: "anything"}


@dataclass
class Window:
    """A time in which clients of a Spark, or of all, may see more than whole answers."""

    began: float
    level: int
    spark: str = ""
    ended: float = float("inf")


def level(problem: str | None) -> int:
    """Return how bad an answer was.

    A server that ends in the middle of a request is a 500 or a 502 to those to whom it had said
    nothing yet.
    """
    if problem is None:
        return WHOLE
    if problem.startswith("503"):
        return REFUSED
    if problem.startswith((BROKE_OFF, "ChunkedEncodingError", "500", "502", "504")):
        return BROKEN
    return NEVER if problem[:3].isdigit() else UNREACHABLE


def objections(
    spark: str, answers: Iterable[Answer], windows: Iterable[Window], *, gateway: bool = False
) -> Iterator[str]:
    """Say which answers nothing explains."""
    for answer in answers:
        seen = level(answer.problem)
        allowed = WHOLE
        for window in windows:
            if answer.began <= window.ended and answer.ended >= window.began:
                if window.spark in ("", spark):
                    allowed = max(allowed, window.level)
                elif gateway and window.level >= BROKEN:
                    allowed = max(allowed, BROKEN)
        if seen > allowed:
            yield (
                f"a client of {'the gateway' if gateway else spark} saw {answer.problem!r} after "
                f"{answer.ended - answer.began:.1f} s, where {_SEEN[allowed]} were to be expected"
            )
