"""JSON that comes from a host."""

import json
import math
from typing import Any

from pydantic import BaseModel, ConfigDict

# What fits 64 bits: nothing of a host is larger, and a float takes it.
_MOST = 1 << 63


class Told(BaseModel):
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
