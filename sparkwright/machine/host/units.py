"""The state of several units in relation to their files, read by one part of a script."""

import shlex
from collections.abc import Iterable, Mapping

from sparkwright.common.host_output import MARK, Sections
from sparkwright.common.placed import SYSTEMD
from sparkwright.machine.host.state import UnitState


def units_script(units: Mapping[str, Iterable[str]]) -> str:
    """Return the part of a POSIX shell script that reads units and the files of each."""
    names = shlex.join(units)
    lines = [
        f"echo {MARK}units",
        "systemctl show --property=Id,ActiveState,ActiveEnterTimestamp --timestamp=unix "
        f"{names} 2>/dev/null",
        # By their links: what systemd remembers of a unit may be older.
        f"echo {MARK}enabled",
        f"systemctl list-unit-files --plain --no-legend --state=enabled {names} 2>/dev/null",
    ]
    # Of an instance systemctl lists the template alone.
    lines += [
        f"find {SYSTEMD}/*.wants -name {shlex.quote(unit)} -printf '%f\\n' 2>/dev/null"
        for unit in units
        if "@" in unit
    ]
    for unit, paths in units.items():
        lines.append(f"echo {MARK}{unit}")
        if files := shlex.join(paths):
            lines.append(f"stat --format=%Y -- {files} 2>/dev/null")
    return "\n".join(lines)


def parse_units(found: Sections, units: Iterable[str]) -> dict[str, UnitState]:
    """Return the states of units by what the script has printed."""
    blocks = "\n".join(found["units"]).split("\n\n")
    shown = [dict(line.split("=", 1) for line in block.splitlines()) for block in blocks]
    # Without systemd all of these are missing.
    by_name = {values["Id"]: values for values in shown if "Id" in values}
    enabled = {line.split(" ")[0] for line in found["enabled"]}
    states = {}
    for unit in units:
        values = by_name.get(unit, {})
        started = int(values.get("ActiveEnterTimestamp", "").removeprefix("@") or 0)
        states[unit] = UnitState(
            active=values.get("ActiveState") == "active",
            enabled=unit in enabled,
            outdated=max(map(int, found[unit]), default=0) > started,
        )
    return states
