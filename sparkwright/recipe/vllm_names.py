"""The options and variables that vLLM's releases have, and which of them need trust."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

NAMES = Path(__file__).with_name("vllm_names.txt")

# What each kind of trust lets a recipe do; `-` in the table stands for none.
KINDS = {
    "code": "can have the engine run code of the recipe's choice",
    "network": "opens ports or has the engine talk to other machines",
    "logs": "writes what clients ask into the journal",
    "clients": "lets clients do more than ask the model",
    "files": "reads or writes files of the recipe's choice",
    "?": "is of no vLLM that this project has looked into",
}
UNKNOWN = KINDS["?"]

# Words that end the names of secrets.
_SECRETS = (
    *("token", "secret", "password", "passwd", "passphrase", "credential", "credentials"),
    *("apikey", "pwd"),
)

Release = tuple[int, ...]


@dataclass(frozen=True)
class KnownName:
    """The table's entry for a name.

    Attributes:
        first, last: The first and the last release in the table that have it.
        danger: What it lets a recipe do; None: nothing that needs trust.
    """

    first: Release
    last: Release
    danger: str | None


def normal(name: str) -> str:
    """Return an option's name as vLLM compares it: small letters, dashes, none in front."""
    return name.lower().replace("_", "-").strip("-")


def number(release: str) -> Release:
    """Return a release such as 0.28.0 as numbers, to compare it."""
    return tuple(map(int, release.split(".")))


@cache
def table() -> dict[str, KnownName]:
    """Return all names: options without their dashes, and variables."""
    found = {}
    for name, first, last, kind in _rows():
        danger = None if kind == "-" else KINDS[kind]
        found[name] = KnownName(number(first), number(last), danger)
    return found


@cache
def releases() -> tuple[Release, ...]:
    """Return the releases whose names the table has."""
    line = next(line for line in NAMES.read_text().splitlines() if line.startswith("releases "))
    return tuple(map(number, line.split()[1:]))


@cache
def options(release: Release | None) -> frozenset[str]:
    """Return the options of a release; those of all releases where the table lacks it.

    Args:
        release: Its numbers; None: unknown.
    """
    everywhere = release not in releases()
    return frozenset(
        name
        for name, known in table().items()
        if not is_variable(name)
        and (everywhere or (release is not None and known.first <= release <= known.last))
    )


def is_variable(name: str) -> bool:
    """Tell whether a name of the table is a variable's."""
    return name.isupper()


def is_secret(name: str) -> bool:
    """Tell whether an option or variable has a secret's name: HF_TOKEN, api-key, DB_PASSWD."""
    words = re.split("[_-]", name.lower())
    if words[-1] in ("key", "token", "secret", "password"):
        return True
    return name not in table() and any(word.endswith(_SECRETS) for word in words)


def _rows() -> list[list[str]]:
    lines = NAMES.read_text().splitlines()
    return [line.split() for line in lines if not line.startswith(("#", "releases "))]
