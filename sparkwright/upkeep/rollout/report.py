"""The report of a rollout: JSON for machines, a plan and a table for people."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any

from sparkwright.common.command_line import next_line
from sparkwright.upkeep.rollout.course import Rollout
from sparkwright.upkeep.rollout.plan import ReplicaRecord, Result


def report(rollout: Rollout, started: str, ended: str | None) -> dict[str, Any]:
    """Return the content of the JSON file.

    Args:
        started, ended: times in ISO 8601; `ended` is None while it goes on.
    """
    return {
        "started": started,
        "ended": ended,
        "soak": rollout.soak,
        "minimum_speed": rollout.minimum_speed,
        "stopped": rollout.stopped,
        "waves": rollout.waves,
        "replicas": [asdict(record) for record in rollout.records.values()],
    }


def plan_lines(records: Collection[ReplicaRecord], waves: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a rollout's plan, or of why there is none."""
    if refused := [each for each in records if each.reason]:
        return [f"replica {each.replica}: {each.reason}" for each in refused]
    changes = {
        each.replica: f"{each.replica} ({each.previous or 'nothing'} -> {each.release})"
        for each in records
    }
    lines = [
        f"wave {number} of {len(waves)}: {', '.join(changes[name] for name in wave)}"
        for number, wave in enumerate(waves, 1)
    ]
    already = [each.replica for each in records if each.result is Result.ALREADY]
    return lines + ([f"{Result.ALREADY}: {', '.join(already)}"] if already else [])


def table(rollout: Rollout) -> list[str]:
    """Return a heading, a line for each replica, and how to go on."""
    rows = [("replica", "wave", "what happened", "s", "gap s", "tok/s")]
    for record in rollout.records.values():
        rows.append(
            (
                record.replica,
                str(record.wave or ""),
                record.result + (", beside the previous release" if record.beside else ""),
                f"{record.seconds:.0f}" if record.seconds else "",
                f"{record.gap:.1f}" if record.seconds else "",
                "" if record.speed is None else f"{record.speed:.1f}",
            )
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    if not rollout.stopped:
        return lines
    lines.append(f"Stopped: {rollout.stopped}")
    for record in rollout.records.values():
        if record.result in (Result.DOWN, Result.STUCK) and record.previous:
            back = next_line("rollback", f"--limit {record.replica}")
            lines.append(f"To have {record.previous} serve again: {back}")
    return [*lines, "Run again to go on: a replica that serves what it should is not touched."]
