"""What a Spark's system is, and what apt and the next boot bring to it."""

from typing import Any

VERSIONS = {"kernel": "6.17.0-1032-nvidia", "driver": "580.173.02"}


def system(**changes: Any) -> dict[str, Any]:
    """Return the part of a system that is up to date, but for some of it."""
    return {"packages": {}, "ours": [], "now": VERSIONS, "coming": []} | changes
