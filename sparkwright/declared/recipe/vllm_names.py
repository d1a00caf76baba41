"""The options and variables that vLLM's releases have, and which of them need trust."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sparkwright.common import yaml

NAMES = Path(__file__).with_name("vllm_names.yaml")

# What each kind of trust lets a recipe do.
KINDS = {
    "code": "can have the engine run code of the recipe's choice",
    "network": "opens ports or has the engine talk to other machines",
    "logs": "writes what clients ask into the journal",
    "clients": "lets clients do more than ask the model",
    "files": "reads or writes files of the recipe's choice",
    "unknown": "is of no vLLM that this project has looked into",
}
UNKNOWN = KINDS["unknown"]

# Words that end the names of secrets.
_SECRETS = (
    *("token", "secret", "password", "passwd", "passphrase", "credential", "credentials"),
    *("apikey", "pwd"),
)

Release = tuple[int, ...]


@dataclass(frozen=True)
class KnownName:
    """The first and the last release in the table that have a name, and what it lets a recipe do.

    ``danger`` is None for nothing that needs trust.
    """

    first: Release
    last: Release
    danger: str | None

    def is_in(self, release: Release) -> bool:
        """Tell whether a release has it."""
        return self.first <= release <= self.last


def normal(name: str) -> str:
    """Return an option's name as vLLM compares it: small letters, dashes, none in front."""
    return name.lower().replace("_", "-").strip("-")


def number(release: str) -> Release:
    """Return a release such as 0.28.0 as numbers, to compare it."""
    return tuple(map(int, release.split(".")))


@cache
def table() -> dict[str, KnownName]:
    """Return all names: options without their dashes, and variables in capitals."""
    known: dict[str, KnownName] = {}
    for group in _content()["groups"]:
        danger = None if group["kind"] == "none" else KINDS[group["kind"]]
        entry = KnownName(number(group["first"]), number(group["last"]), danger)
        known |= dict.fromkeys(group["names"].split(), entry)
    return known


@cache
def releases() -> tuple[Release, ...]:
    """Return the releases whose names the table has."""
    return tuple(map(number, _content()["releases"]))


@cache
def options(release: Release | None) -> frozenset[str]:
    """Return the options of a release; those of all releases where the table lacks it."""
    everywhere = release not in releases()
    return frozenset(
        name
        for name, known in table().items()
        if not name.isupper() and (everywhere or known.is_in(release or ()))
    )


def is_secret(name: str) -> bool:
    """Tell whether an option or variable has a secret's name: HF_TOKEN, api-key, DB_PASSWD."""
    words = re.split("[_-]", name.lower())
    if words[-1] in ("key", "token", "secret", "password"):
        return True
    return name not in table() and any(word.endswith(_SECRETS) for word in words)


@cache
def _content() -> Any:
    return yaml.load(NAMES)
