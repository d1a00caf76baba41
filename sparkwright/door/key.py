"""The API keys of a fleet: owner, validity, and the doors that each opens."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from hashlib import sha256

from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError
from sparkwright.common.last_resort import hide

# The characters of a bearer token (RFC 6750, 2.1).
_KEY = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
_NAMES = "a name of up to 32 letters, digits and . _ -"
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
# A day as it is written elsewhere.
_DAY = re.compile(r"\d{1,4}[./-]\d{1,2}[./-]\d{1,4}")
# 20 characters of base64 are 120 bits, which cannot be guessed; the keys made here have 256. Of
# keys of 20 hex digits, one in a thousand has fewer than 8 different ones.
SHORTEST, _DIFFERENT = 20, 8
# The places that a key may open beside replicas: the gateway, and the metrics of all doors. The key
# with the gateway's name is its own: it opens the replicas, and nothing else.
GATEWAY, METRICS = "gateway", "metrics"
# In the year 2286.
_NEVER = 9_999_999_999


@dataclass(frozen=True)
class Key:
    """A key of a client.

    Attributes:
        name: Its owner, in log and metrics.
        secret: The key itself.
        places: Replicas, `gateway`, `metrics`; none named means all.
        until: The last day (UTC) on which it is valid.
    """

    name: str
    secret: str
    places: tuple[str, ...] = ()
    until: date | None = None

    def __post_init__(self) -> None:
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

    def opens(self, place: str) -> bool:
        """Tell whether it opens a replica or the gateway; a key for metrics opens each."""
        if self.name == GATEWAY:
            return place != GATEWAY
        return not self.places or place in self.places or METRICS in self.places

    def line(self, place: str) -> str:
        """Return its line for the door of a place: HASH NAME:END, `:metrics` for these alone."""
        entry = f"{self.digest} {self.name}:{self.ends}"
        return entry if not self.places or place in self.places else f"{entry}:{METRICS}"


def parse_keys(text: str, source: str, replicas: Collection[str] | None = None) -> list[Key]:
    """Read the lines of a file of keys.

    Raises:
        PlanError: All faults of its lines; no key is shown.
    """
    keys: list[Key] = []
    problems: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        try:
            keys.append(_key(words, replicas))
        except ValueError as problem:
            problems.append(f"{source}: line {number}: {problem}")
    for secret in dict.fromkeys(key.secret for key in keys):
        names = sorted({each.name for each in keys if each.secret == secret})
        if len(names) > 1:
            problems.append(
                f"{source}: found one key for {' and '.join(names)}; expected one for each"
            )
    if problems:
        raise PlanError(*problems)
    first: dict[str, Key] = {}
    for key in keys:
        first.setdefault(key.secret, key)
    return list(first.values())


def checked_name(name: str) -> str:
    """Return the name of a client.

    Raises:
        PlanError: It is invalid.
    """
    if name == GATEWAY:
        raise PlanError(f"found {name}, whose key a run makes; expected the name of a client")
    if not _NAME.fullmatch(name):
        raise PlanError(f"found {name!r}; expected {_NAMES}")
    return name


def _key(words: Sequence[str], replicas: Collection[str] | None) -> Key:
    if len(words) == 1:
        _check(words[0])
        # The format before keys had names.
        key = Key("", words[0])
        return Key(f"key-{key.digest[:6].lower()}", key.secret)
    name, secret, *rest = words
    if name == GATEWAY and any(not _DATE.fullmatch(word) for word in rest):
        raise ValueError(f"found places for the key of {GATEWAY}; expected none: it opens replicas")
    if not _NAME.fullmatch(name):
        raise ValueError(f"found no valid name before the key; expected {_NAMES}, then the key")
    _check(secret)
    until = rest.pop() if rest and _DATE.fullmatch(rest[-1]) else None
    if len(rest) > 1:
        raise ValueError(
            f"found {len(rest)} words after the key of {name}; expected NAME KEY, then replicas "
            "with commas between them, then the last day as YYYY-MM-DD"
        )
    places = tuple(rest[0].split(",")) if rest else ()
    known = None if replicas is None else {*replicas, GATEWAY, METRICS}
    for place in places:
        if _DAY.fullmatch(place) and place not in (known or ()):
            raise ValueError(f"found {place}; expected the last day as YYYY-MM-DD")
        if known is not None and place not in known:
            raise ValueError(
                f"found {place[:SHORTEST]!r} for the key of {name}; expected "
                f"{', '.join(sorted(known))}"
            )
    try:
        return Key(name, secret, places, date.fromisoformat(until) if until else None)
    except ValueError:
        raise ValueError(f"found {until}, which is no day; expected YYYY-MM-DD") from None


def _check(secret: str) -> None:
    """Refuse a key that can be guessed, or cannot be sent; do not show it."""
    if not _KEY.fullmatch(secret):
        raise ValueError(
            "found other characters in a key; expected letters, digits and any of . _ ~ + / - ="
        )
    another = f"{next_line('keys add', 'NAME')} makes one"
    if len(secret) < SHORTEST:
        raise ValueError(
            f"found a key of {len(secret)} characters; expected at least {SHORTEST}: {another}"
        )
    if len(set(secret)) < _DIFFERENT:
        raise ValueError(
            f"found a key of {len(set(secret))} different characters; expected at least "
            f"{_DIFFERENT}: {another}"
        )
    # A text of a repeated piece occurs in its double at another place than the ends.
    if secret in (secret + secret)[1:-1]:
        raise ValueError(f"found a key with a repeating pattern; expected a random one: {another}")
