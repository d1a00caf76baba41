"""A virtual environment of Python."""

from hashlib import sha256
from typing import Any

from host.state.readers import run, text


def read(path: str) -> dict[str, Any]:
    """Return the hash of an environment's requirements; None if it does not work.

    After an upgrade of the system's Python, an environment starts but lacks its packages.
    """
    works = run(f"{path}/bin/python", "-c", "import pip").returncode == 0
    stamp = text(f"{path}/.requirements") if works else None
    return {"requirements": None if stamp is None else sha256(stamp.encode()).hexdigest()}
