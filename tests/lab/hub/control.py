"""Serve the hub, and make a running one misbehave: from the command line and from tests."""

import argparse
import json
from pathlib import Path
from typing import Any
from urllib import error, request

from tests.lab.hub import faults
from tests.lab.hub.server import Hub

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


def main(argv: list[str]) -> int:
    """Run `serve` or `fault` with these arguments; return the exit status."""
    parser = argparse.ArgumentParser(prog="hub", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve", help="serve a folder of repositories")
    serve.add_argument("--root", type=Path, required=True, help="organisation/name/v1/… below it")
    serve.add_argument("--listen", default=ADDRESS, metavar="HOST:PORT")
    fault = commands.add_parser("fault", help="make the running hub misbehave")
    fault.add_argument("name", choices=[*faults.NAMES, "clear"])
    fault.add_argument("--path", default="*", metavar="GLOB", help="organisation/name/file")
    fault.add_argument("--times", type=int, metavar="N", help="requests that it hits (all)")
    fault.add_argument("--after", type=int, metavar="BYTES", help="where it goes wrong (half)")
    fault.add_argument("--seconds", type=int, metavar="S", help="Retry-After of 429 (1)")
    fault.add_argument("--rate", type=int, metavar="BYTES", help="per second and answer (1 MiB)")
    fault.add_argument("--hub", default=URL, metavar="URL")
    options = vars(parser.parse_args(argv))
    command = options.pop("command")
    if command == "serve":
        return _serve(**options)
    try:
        if options["name"] == "clear":
            clear_faults(options["hub"])
        else:
            set_fault(**options)
    except (OSError, ValueError) as problem:
        parser.exit(1, f"hub: {options['hub']}: {problem}\n")
    return 0


def _serve(root: Path, listen: str) -> int:
    host, _, port = listen.rpartition(":")
    with Hub(root, (host, int(port))) as hub:
        hub.serve_forever()
    return 0


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
