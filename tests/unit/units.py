"""What a Spark says about units: the sections of a script that reads them."""

from collections.abc import Mapping

_STARTED = 1000


def said_of_units(units: Mapping[str, str]) -> list[str]:
    """Return the lines of the sections; each unit has words of "active enabled outdated"."""
    words = {unit: text.split() for unit, text in units.items()}
    shown = [
        [
            f"Id={unit}",
            f"ActiveState={'active' if 'active' in own else 'inactive'}",
            f"ActiveEnterTimestamp={f'@{_STARTED}' if 'active' in own else ''}",
        ]
        for unit, own in words.items()
    ]
    blocks = "\n\n".join(map("\n".join, shown)).splitlines()
    enabled = [f"{unit} enabled enabled" for unit, own in words.items() if "enabled" in own]
    changed = [
        line
        for unit, own in words.items()
        for line in (f"@@{unit}", *([str(_STARTED + 1), "7"] if "outdated" in own else []))
    ]
    return ["@@units", *blocks, "@@enabled", *enabled, *changed]
