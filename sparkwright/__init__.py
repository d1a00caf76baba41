"""Provisions DGX Sparks, from their factory state to served models, with pyinfra."""

import sys

# A clone runs without pip, which would refuse it.
if sys.version_info < (3, 11):  # noqa: UP036
    _found = f"{sys.version_info[0]}.{sys.version_info[1]}"
    raise SystemExit(f"found Python {_found}; expected 3.11 or later: uv python install 3.11")

__version__ = "0.1.0"
