"""The output of hosts: named sections of one script, and JSON, checked before it is used."""

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

# A line of a script's output that begins with this names the section that follows.
MARK = "@@"


def sections_script(parts: Mapping[str, str]) -> str:
    """Return a POSIX shell script that prints each part's output as a section; it exits 0.

    Args:
        parts: shell commands by the name of their section; one that fails prints less, and nothing
            of its errors.
    """
    lines = [f"echo {MARK}{name}; ( {body} ) 2>/dev/null" for name, body in parts.items()]
    return "\n".join([*lines, "true"])


def sections(output: Iterable[str]) -> dict[str, list[str]]:
    """Return the lines of each section by its name.

    Raises:
        ValueError: a line stands before the first section.
    """
    found: dict[str, list[str]] = {}
    current = None
    for line in output:
        if line.startswith(MARK):
            current = found.setdefault(line.removeprefix(MARK), [])
        elif current is None:
            raise ValueError(f"found {line!r} before any section")
        else:
            current.append(line)
    return found


# What fits 64 bits: nothing of a host is larger, and a float takes it.
_MOST = 1 << 63


class HostAnswer(BaseModel):
    """A part of what a program of ours writes on a host, or of what somebody else wrote there.

    Nothing is converted. Keys of another version of that program are left out.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", strict=True, allow_inf_nan=False, hide_input_in_errors=True
    )


def read_json(text: str) -> Any:
    """Return what JSON says, with plain numbers and in bounded depth.

    Args:
        text: what a host says.

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
