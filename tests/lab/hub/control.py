"""A running hub is made to misbehave, and says what it has sent."""

import json
from typing import Any
from urllib import error, request

ADDRESS = "10.213.0.1:8090"
URL = f"http://{ADDRESS}"


def set_fault(
    name: str,
    *,
    path: str = "*",
    times: int | None = None,
    after: int | None = None,
    seconds: int | None = None,
    rate: int | None = None,
    hub: str = URL,
) -> None:
    """Turn a fault of a running hub on, beside those that are on; see faults.Fault.

    Args:
        name: one of faults.NAMES.
        path: glob over `organisation/name/file`, or over the URL's path (`api/whoami-v2`).
        times: how many requests it hits; None: all until `clear_faults`.
        after: bytes of the answer before it goes wrong (reset, truncate, flip); None: half.
        seconds: Retry-After of 429; None: 1.
        rate: bytes per second of each answer; None: 1 MiB.
        hub: the running hub's URL.
    """
    fault = {"name": name, "path": path, "times": times, "after": after}
    fault |= {"seconds": seconds} if seconds is not None else {}
    fault |= {"rate": rate} if rate is not None else {}
    _call(hub, "POST", "faults", fault)


def clear_faults(hub: str = URL) -> None:
    """Turn all faults of a running hub off."""
    _call(hub, "DELETE", "faults")


def stats(hub: str = URL) -> dict[str, dict[str, int]]:
    """Return {`organisation/name/file`: {"requests": n, "bytes": n}} of all content sent."""
    counts: dict[str, dict[str, int]] = _call(hub, "GET", "stats")
    return counts


def _call(hub: str, method: str, what: str, content: dict[str, Any] | None = None) -> Any:
    wanted = request.Request(
        f"{hub}/_lab/{what}",
        method=method,
        data=None if content is None else json.dumps(content).encode(),
    )
    # The lab is on this machine: a proxy of the environment cannot reach it.
    opener = request.build_opener(request.ProxyHandler({}))
    try:
        with opener.open(wanted, timeout=10) as answer:
            return json.load(answer)
    except error.HTTPError as refused:
        raise ValueError(json.load(refused)["error"]) from refused
