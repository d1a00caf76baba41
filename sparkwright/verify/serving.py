"""Whether a Spark serves at all: asked first, as of one that does not there is little to prove."""

import subprocess
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import requests

from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError
from sparkwright.door.door import door_unit
from sparkwright.door.keys import api_keys
from sparkwright.run.spark import SparkTarget
from sparkwright.verify.sparks import SPARKS, Data, reached

Client = Callable[..., requests.Response]

# Seconds in which a door answers that has an engine.
_PATIENCE = 10


@cache
def unready(name: str) -> str:
    """Return why a Spark of `SPARKS` cannot be verified, in a sentence; "" if it can."""
    data = SPARKS[name]
    target = SparkTarget.of(data)
    host, problem = reached(data["spark"])
    if problem or not target.recipe_name:
        return problem
    current = host.file(f"{target.place}/current")
    release = Path(current.linked_to).name if current.is_symlink else ""
    units = [f"vllm@{release}", *([] if target.rank else [door_unit(target.place)])]
    states = [host.service(unit).systemd_properties["ActiveState"] for unit in units if release]
    try:
        return unserved(name, release, states, lambda: _answer(data, target))
    except PlanError as error:
        return str(error)


def unserved(
    name: str, release: str, states: Sequence[str], answer: Callable[[], int | str]
) -> str:
    """Return why a Spark does not serve, and what to do; "" if it does.

    Args:
        release: The current one, "" for none.
        states: Of its unit; on a head, of its door.
        answer: Asks the door: an HTTP status, or why there is none; "" where nobody can ask it.
    """

    def said(why: str, verb: str) -> str:
        return f"{name} does not serve: {why}. Next: {next_line(verb)}"

    if not release:
        return said("nothing is set up on it", "apply")
    engine, *door = states
    if engine == "inactive":
        return said(f"the engine vllm@{release} is inactive (it was stopped)", "start")
    if engine != "active":
        return said(f"the engine vllm@{release} is {engine}", "doctor")
    if not door:
        return ""
    if door != ["active"]:
        return said(f"its door is {door[0]}", "doctor")
    status = answer()
    if status == requests.codes.unauthorized:
        return said("its door does not know this site's key, which is newer", "apply")
    if status not in (requests.codes.ok, ""):
        return said(f"its door answers {status}", "doctor")
    return ""


def _answer(data: Data, target: SparkTarget) -> int | str:
    address, jump = address_of(data)
    if jump:
        return ""
    try:
        return client_of(data, target, address)("GET", "/v1/models", timeout=_PATIENCE).status_code
    except requests.RequestException as error:
        return f"nothing at {address}:{target.port} ({type(error).__name__})"


def address_of(data: Data) -> tuple[str, str]:
    """Return where clients reach a Spark, as SSH's settings say, and its jump host, if any."""
    if data["pyinfra_name"] == "@local":
        return "127.0.0.1", ""
    name: str = data.get("ssh_hostname") or data["spark"]
    told = subprocess.run(["ssh", "-G", name], capture_output=True, text=True, check=True).stdout
    options = dict(line.split(" ", 1) for line in told.splitlines() if " " in line)
    jump = options.get("proxyjump", "none")
    return options["hostname"], "" if jump == "none" else jump


def client_of(data: Data, target: SparkTarget, address: str) -> Client:
    """Return what sends requests through a door, from here; with the fleet's key unless told."""
    base = f"http{'s' if target.settings.secured else ''}://{address}:{target.port}"
    own = "none" if data["api_key"] == "none" else api_keys(target.fleet)[0]

    def ask(
        method: str, path: str, body: object = None, key: str | None = own, **options: Any
    ) -> requests.Response:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        options = {"timeout": 120, "json": body, "headers": headers, **options}
        with warnings.catch_warnings():
            # A certificate names the Spark as its clients do, which may not be as pyinfra does:
            # test_certificate proves it by that name.
            warnings.filterwarnings("ignore", "Unverified HTTPS request")
            return requests.request(method, base + path, verify=False, **options)

    return ask
