"""The API keys of a fleet, as YAML: owner, validity, and the doors that each opens."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time
from hashlib import sha256
from typing import Annotated

from pydantic import BeforeValidator, Field

from sparkwright.common import yaml
from sparkwright.common.errors import PlanError
from sparkwright.common.last_resort import hide
from sparkwright.common.schema import Model, Name, matching, nearest, parse, satisfying

# The characters of a bearer token (RFC 6750, 2.1).
_KEY = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
# 20 characters of base64 are 120 bits, which cannot be guessed; the keys made here have 256. Of
# keys of 20 hex digits, one in a thousand has fewer than 8 different ones.
_SHORTEST, _DIFFERENT = 20, 8
# What may be a key, or a part of one, in a message.
_SECRET = re.compile(rf"[A-Za-z0-9._~+/=-]{{{_SHORTEST},}}")
# The places that a key may open beside replicas: the gateway, and the metrics of all doors. The key
# with the gateway's name is its own: it opens the replicas, and nothing else.
GATEWAY, METRICS = "gateway", "metrics"
_LIST = "a list of keys, such as {name: ann, secret: …, places: [chat]}"
# In the year 2286.
_NEVER = 9_999_999_999


def _is_strong(secret: str) -> bool:
    # A text of a repeated piece occurs in its double at another place than the ends.
    repeats = secret in (secret + secret)[1:-1]
    strong = len(secret) >= _SHORTEST and len(set(secret)) >= _DIFFERENT and not repeats
    return strong and bool(_KEY.fullmatch(secret))


def _day(value: object) -> object:
    with suppress(ValueError):
        if isinstance(value, str) and _DATE.fullmatch(value):
            return date.fromisoformat(value)
    return value


class Key(Model):
    """A key of a client.

    Attributes:
        name: Its owner, in log and metrics.
        places: Replicas, `gateway`, `metrics`; none named means all.
        until: The last day (UTC) on which it is valid.
    """

    name: Annotated[str, matching(_NAME)] = Field(
        description="a name of up to 32 letters, digits and . _ -"
    )
    secret: Annotated[str, satisfying(_is_strong)] = Field(
        repr=False,
        description=f"at least {_SHORTEST} random letters, digits and any of . _ ~ + / - =, such "
        "as `openssl rand -hex 32` makes",
    )
    places: list[Name] = Field(default=[], description="a list such as [chat, gateway]")
    until: Annotated[date, BeforeValidator(_day)] | None = Field(
        default=None, description="its last day, such as 2027-03-31"
    )

    def model_post_init(self, context: object) -> None:
        """Keep it out of messages from now on."""
        hide(self.secret)

    @property
    def digest(self) -> str:
        """Its hash, which is all that a Spark stores."""
        return sha256(self.secret.encode()).hexdigest().upper()

    @property
    def ends(self) -> int:
        """Seconds since 1970 from which it is invalid."""
        if self.until is None:
            return _NEVER
        return int(datetime.combine(self.until, time(), UTC).timestamp()) + 86400

    @property
    def is_valid(self) -> bool:
        """Tell whether it opens anything today."""
        return datetime.now(UTC).timestamp() < self.ends

    def opens(self, place: str) -> bool:
        """Tell whether it opens a replica or the gateway; a key for metrics opens each."""
        if self.name == GATEWAY:
            return place != GATEWAY
        return not self.places or place in self.places or METRICS in self.places

    def line(self, place: str) -> str:
        """Return its line for the door of a place: HASH NAME:END, `:metrics` for these alone."""
        entry = f"{self.digest} {self.name}:{self.ends}"
        return entry if not self.places or place in self.places else f"{entry}:{METRICS}"


class KeysFile(Model):
    """The content of a file of keys."""

    keys: list[Key] = Field(description=_LIST)


def parse_keys(text: str, source: str, replicas: Collection[str]) -> list[Key]:
    """Read the text of a file of keys. A PlanError tells all its faults, and shows no key."""
    try:
        data = yaml.parse(text, source)
        if not isinstance(data, dict) or "sops" in data:
            raise PlanError(
                f"{source}: found no keys, or encrypted ones; expected `keys:` and {_LIST}. To "
                "keep them encrypted, name the command that decrypts them in the inventory, such "
                "as keys_command: [sops, --decrypt, FILE]"
            )
        keys = parse(KeysFile, data, source, lambda _: "another value").keys
    except PlanError as error:
        # What is no key, such as a word of YAML's, may be a part of one.
        said = (each.removeprefix(source) for each in error.problems)
        raise PlanError(*(source + _SECRET.sub("***", each) for each in said)) from None
    check_keys(keys, source, replicas)
    return keys


def check_keys(keys: Sequence[Key], source: str, replicas: Collection[str]) -> None:
    """Refuse keys for places that are none, and a key of two people."""
    places, problems = {*replicas, GATEWAY, METRICS}, []
    for number, key in enumerate(keys):
        where = f"{source}: keys[{number}].places: found"
        if key.name == GATEWAY and key.places:
            why = "expected none: its key opens the replicas"
            problems.append(f"{where} some for {GATEWAY}; {why}")
        problems += (
            f"{where} {place[:_SHORTEST]!r} for {key.name}; {nearest(place, places)}"
            for place in key.places
            if place not in places
        )
    for secret, count in Counter(key.secret for key in keys).items():
        if count > 1:
            names = " and ".join(key.name for key in keys if key.secret == secret)
            problems.append(f"{source}: keys: found one key for {names}; expected one for each")
    if problems:
        raise PlanError(*problems)
