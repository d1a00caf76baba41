"""The last hard end of this Spark, as its flight recorder judged it."""

import json
import time
from typing import Any

from host.common.seat import SEATS
from host.state.readers import text

# Seconds for which it is told; lines of its last seconds, and characters of a line.
_DAY, _LINES, _LINE = 24 * 3600, 40, 200


def read(root: str) -> dict[str, Any]:
    """Return the last hard end of the Spark of a seat: when, why, its last seconds; None of old."""
    path = f"{root.partition(f'/{SEATS}/')[0]}/state/last-down.json"
    try:
        down = json.loads(text(path) or "")
        at, back = float(down["at"]), float(down["back"])
        if not (abs(at) < 1e11 and abs(time.time() - back) < _DAY):
            return {"down": None}
        told = {"cause": str(down["cause"])[:20], "why": str(down["why"])[:_LINE]}
        lines = [str(each)[:_LINE] for each in down["lines"][-_LINES:]]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        # There is none; or it was damaged, as it is written in one step.
        return {"down": None}
    return {"down": {"at": at, "back": back, **told, "lines": lines}}
