"""The form of an ailment: a cause of failure, how it shows, and what to do about it."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from deploys.plan.checkup import Checkup


@dataclass(frozen=True, kw_only=True)
class Ailment:
    """One cause of failure.

    Attributes:
        name: also that of the log that its test reads, tests/unit/logs/NAME.log.
        cause: what is wrong, for people; no full stop.
        remedy: what to do about it; no full stop.
        source: where it is known from.
    """

    name: str
    cause: str
    remedy: str
    source: str


@dataclass(frozen=True, kw_only=True)
class LogAilment(Ailment):
    """A cause that shows by a line of a log.

    Attributes:
        pattern: found in that line.
        sign: what of the host shows it as well, in words, whatever the log says; None where
            nothing does.
    """

    pattern: re.Pattern[str]
    sign: Callable[[Checkup], str | None] | None = None


@dataclass(frozen=True, kw_only=True)
class HostAilment(Ailment):
    """A cause that shows by the host itself.

    Attributes:
        sign: what of the reading shows it, in words; None where nothing does.
    """

    sign: Callable[[Checkup], str | None]


@dataclass(frozen=True)
class Diagnosis:
    """One cause that was found, and the very line or reading that shows it."""

    name: str
    cause: str
    evidence: str
    remedy: str
