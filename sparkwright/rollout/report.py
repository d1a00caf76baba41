"""The report of a rollout, during it and at its end: JSON for machines, a table for people."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from sparkwright.rollout.record import ReplicaRecord, Result
from sparkwright.rollout.waves import Rollout
from sparkwright.run.options import RunOptions


def report(
    rollout: Rollout, options: RunOptions, started: str, ended: str | None = None
) -> dict[str, Any]:
    """Return the content of the JSON file.

    Args:
        rollout: as it is now.
        options: of its run.
        started, ended: times in ISO 8601; `ended` is None while it goes on.

    Returns:
        {"started", "ended", "soak" (s), "minimum_speed" (tokens/s or None), "stopped" (why; ""),
        "waves" (replicas of each), "replicas" (an object each: `ReplicaRecord`, without `names`)}.
    """
    return {
        "started": started,
        "ended": ended,
        "soak": options.soak,
        "minimum_speed": options.minimum_speed,
        "stopped": rollout.stopped,
        "waves": [list(wave) for wave in rollout.waves],
        "replicas": [_entry(record) for record in rollout.records.values()],
    }


def _entry(record: ReplicaRecord) -> dict[str, Any]:
    values = {**asdict(record), "sparks": list(record.sparks), "result": record.result.value}
    del values["names"]
    return values


def plan_lines(rollout: Rollout) -> list[str]:
    """Return the lines of a rollout's plan, or of why there is none."""
    records = rollout.records.values()
    refused = [each for each in records if each.result in (Result.REFUSED, Result.LOST)]
    if refused:
        return [f"replica {each.replica}: {each.reason}" for each in refused]
    lines = [
        f"wave {number} of {len(rollout.waves)}: "
        f"{', '.join(_change(rollout.records[name]) for name in wave)}"
        for number, wave in enumerate(rollout.waves, 1)
    ]
    already = [each.replica for each in records if each.result is Result.ALREADY]
    return lines + ([f"{Result.ALREADY}: {', '.join(already)}"] if already else [])


def table(rollout: Rollout) -> list[str]:
    """Return the lines of the table: a heading, and one for each replica."""
    rows = [("replica", "Sparks", "wave", "what happened", "s", "gap s", "tok/s", "serves")]
    for record in rollout.records.values():
        timed = bool(record.seconds)
        rows.append(
            (
                record.replica,
                ", ".join(record.sparks),
                str(record.wave or ""),
                record.result + (", beside the previous release" if record.beside else ""),
                f"{record.seconds:.0f}" if timed else "",
                f"{record.gap:.1f}" if timed else "",
                "" if record.speed is None else f"{record.speed:.1f}",
                _serves(record),
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return lines + ([f"Stopped: {rollout.stopped}"] if rollout.stopped else [])


def _change(record: ReplicaRecord) -> str:
    return f"{record.replica} ({record.previous or 'nothing'} -> {record.release})"


def _serves(record: ReplicaRecord) -> str:
    match record.result:
        case Result.ALREADY | Result.SWITCHED | Result.STUCK:
            return record.release
        case Result.FAILED | Result.BACK | Result.WAITING | Result.REFUSED:
            return record.previous or "nothing"
        case Result.DOWN:
            return "nothing"
    return "unknown"
