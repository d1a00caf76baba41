"""The switch to a release: its unit, its report, and what the engine logs meanwhile."""

import json
from typing import Any

from host.state.readers import run, text

# Characters of a line of the log, and lines of one reading.
_LINE, _LINES = 4000, 5000
_CURSOR = "-- cursor: "


def read(root: str, release: str, since: str = "", cursor: str | None = None) -> dict[str, Any]:
    """Return the course of a switch.

    Args:
        since: Start of the engine's log, "@" and seconds since the epoch; "" to read none.
        cursor: The place in the log after which to read on.
    """
    unit = f"switch@{release}.service"
    active = run("systemctl", "show", "--value", "--property=ActiveState", "--", unit).stdout
    report = text(f"{root}/jobs/switch@{release}.json")
    lines = _log(f"vllm@{release}.service", since, cursor) if since else []
    # journalctl adds it: what an engine writes stands before.
    last = lines.pop() if lines and lines[-1].startswith(_CURSOR) else ""
    return {
        "ended": active.strip() in ("inactive", "failed"),
        "report": json.loads(report) if report else None,
        "cursor": last.removeprefix(_CURSOR) or None,
        "lines": [line[:_LINE] for line in lines if line][-_LINES:],
    }


def _log(unit: str, since: str, cursor: str | None) -> list[str]:
    start = f"--after-cursor={cursor}" if cursor else f"--since={since}"
    words = ("journalctl", "--quiet", "--output=cat", "--show-cursor", f"--unit={unit}", start)
    return run(*words).stdout.splitlines()
