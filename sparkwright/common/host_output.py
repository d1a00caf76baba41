"""The output of hosts: named sections of one script, and JSON, checked before use."""

import json
import math
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict

# Begins a line of a script's output that names the section after it.
MARK = "@@"


class Sections(dict[str, list[str]]):
    """The lines of each section by its name; a missing one is a ValueError, as any bad output."""

    def __missing__(self, name: str) -> list[str]:
        raise ValueError(f"found no section {name!r}")


def sections(output: Iterable[str]) -> Sections:
    """Return the sections of a script's output.

    Raises:
        ValueError: a line stands before the first section.
    """
    found = Sections()
    current = None
    for line in output:
        if line.startswith(MARK):
            current = found.setdefault(line.removeprefix(MARK), [])
        elif current is None:
            raise ValueError(f"found {line!r} before any section")
        else:
            current.append(line)
    return found


# Bound of a host's numbers: 64 bits, which a float can represent as well.
_MOST = 1 << 63


class HostAnswer(BaseModel):
    """A part of what a program wrote on a host.

    Nothing is converted. Unknown keys, as of another version of that program, are ignored.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", strict=True, allow_inf_nan=False, hide_input_in_errors=True
    )


def read_json(text: str) -> Any:
    """Return the value of a JSON text from a host.

    Raises:
        ValueError: it is no JSON, nested too deeply, or has a number that is not finite or does not
            fit 64 bits.
    """
    try:
        return json.loads(text, parse_int=_whole, parse_float=_number, parse_constant=_number)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _whole(text: str) -> int:
    number = int(text)
    if abs(number) >= _MOST:
        raise ValueError(f"found a number of {len(text)} digits; expected one of 64 bits")
    return number


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"found {text[:20]}; expected a finite number")
    return number
