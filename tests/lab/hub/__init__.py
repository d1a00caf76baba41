"""A hub that speaks Hugging Face's protocol to an unmodified client, and misbehaves on demand.

Here a running one is made to misbehave, and says what it has sent.
"""

import json
from typing import Any
from urllib import error, request

from tests.lab.hub.protocol import TOKENS
from tests.lab.hub.repositories import add_commit, ensure_repositories

ADDRESS = "10.213.0.1:8090"
URL = f"http://{ADDRESS}"
__all__ = ["TOKENS", "add_commit", "ensure_repositories"]


def set_fault(name: str, *, hub: str = URL, **options: str | int) -> None:
    """Turn a fault of a running hub on, beside those that are on: the fields of faults.Fault."""
    _call(hub, "POST", "faults", {"name": name, **options})


def clear_faults(hub: str = URL) -> None:
    _call(hub, "DELETE", "faults")


def stats(hub: str = URL) -> dict[str, dict[str, int]]:
    """Return {`organisation/name/file`: {"requests": n, "bytes": n}} of all content sent."""
    counts: dict[str, dict[str, int]] = _call(hub, "GET", "stats")
    return counts


def _call(hub: str, method: str, what: str, content: dict[str, Any] | None = None) -> Any:
    data = None if content is None else json.dumps(content).encode()
    wanted = request.Request(f"{hub}/_lab/{what}", method=method, data=data)
    # The lab is on this machine: a proxy of the environment cannot reach it.
    opener = request.build_opener(request.ProxyHandler({}))
    try:
        with opener.open(wanted, timeout=10) as answer:
            return json.load(answer)
    except error.HTTPError as refused:
        raise ValueError(json.load(refused)["error"]) from refused
