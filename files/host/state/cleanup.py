"""The plan of `clean` or `remove`: all that would be deleted, and that stays."""

from typing import Any

from host.upkeep.cleanup import clean, remove


def read(program: str, given: dict[str, Any]) -> dict[str, object]:
    """Return the plan of a program of files/host/upkeep/cleanup, in lines for people."""
    return clean.look(given) if program == "clean" else remove.Removal(given).look()
