"""Docker's configuration without the keys that Sparkwright has set in it."""

import json
from collections.abc import Iterator
from typing import Any


def without_ours(text: str, previous: str, ours: dict[str, dict[str, Any]]) -> str | None:
    """Return daemon.json without our keys; `previous` where nothing else has changed since.

    Args:
        text: the file as it is.
        previous: as it was before our first change; "" where there was none.
        ours: the values that we set, by section and key; None stands for any value. A key with
            another value by now is the owner's.

    None where it has no key of ours, or is invalid: Docker does not start with such a file, so its
    owner is at work on it.
    """
    try:
        found, before = (json.loads(each or "{}") for each in (text, previous))
        keys = [*_keys(found, before, ours)]
        for section, key in keys:
            del found[section][key]
            if not found[section] and section not in before:
                del found[section]
    except (ValueError, AttributeError, TypeError):
        return None
    if not keys:
        return None
    return previous if found == before else json.dumps(found, indent=4) + "\n"


def _keys(
    found: dict[str, Any], before: dict[str, Any], ours: dict[str, dict[str, Any]]
) -> Iterator[tuple[str, str]]:
    for section, values in ours.items():
        for key, value in values.items():
            is_set = key in found.get(section, {}) and key not in before.get(section, {})
            if is_set and value in (None, found[section][key]):
                yield section, key
