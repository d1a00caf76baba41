"""A hub that speaks Hugging Face's protocol to an unmodified client, and misbehaves on demand."""

from tests.lab.hub.control import ADDRESS, URL, clear_faults, set_fault, stats
from tests.lab.hub.protocol import TOKENS
from tests.lab.hub.repositories import add_commit, ensure_repositories

__all__ = [
    "ADDRESS",
    "TOKENS",
    "URL",
    "add_commit",
    "clear_faults",
    "ensure_repositories",
    "set_fault",
    "stats",
]
