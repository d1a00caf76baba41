"""The Sparks of an inventory as pyinfra sees them, the ways to them, and whether they serve."""

import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import requests
import testinfra
from testinfra.host import Host

from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError
from sparkwright.common.part import Ask, P
from sparkwright.common.terminal import plain
from sparkwright.declared.fleet.fleet import bracketed
from sparkwright.declared.fleet.group_data import checked_group_data, data_of_spark
from sparkwright.door.door import door_unit
from sparkwright.door.keys import api_keys
from sparkwright.plan.release.programs import state_program
from sparkwright.run.inventory.data import choose_replicas, selected
from sparkwright.run.inventory.groups import groups_of_python
from sparkwright.run.spark import SparkTarget, fleet_of
from sparkwright.run.state import RUN

Client = Callable[..., requests.Response]
# What `load` has read, by the Spark's name: of one that serves two replicas, by SPARK/REPLICA.
SPARKS: dict[str, SparkTarget] = {}
# Those of them that `--limit` leaves, in their order.
CHOSEN: list[str] = []
# Those that requests start, and that do not run now.
RESTING: set[str] = set()
# pyinfra's data of each host, by the Spark's name, and what pyinfra calls it: `pyinfra_name`.
_HOSTS: dict[str, dict[str, Any]] = {}
# One that is off is given up soon. A dead connection is noticed, so that a test may reboot a Spark.
_ALIVE = "-o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=2"
# Seconds in which a door answers that has an engine.
_PATIENCE = 10


def load(inventory: str, limit: Sequence[str]) -> None:
    """Fill `SPARKS` and `CHOSEN` by the inventory and group data; `limit` is that of a run."""
    path = Path(inventory)
    if not path.exists():
        raise PlanError(
            f"found no file {inventory} in {Path.cwd()}; expected the root of a pyinfra "
            "project, or another inventory: --inventory FILE"
        )
    try:
        groups = groups_of_python(path)
    except SystemExit as refused:
        raise PlanError(str(refused.code).strip()) from None
    if not groups:
        raise PlanError(
            f"{inventory}: found no Spark in it; expected an inventory that calls "
            "sparkwright.run.inventory.groups.for_pyinfra"
        )
    choose_replicas(groups, limit)
    chosen = [name for name, _ in selected(groups, limit, ())]
    files = checked_group_data()
    for name, data in next(iter(groups.values())):
        spark = data["spark"]
        known = {**data_of_spark(fleet_of(Path(data["fleet"])), spark, files), **data}
        _HOSTS[spark] = {"pyinfra_name": name, **known}
        own = SparkTarget.of(known)
        for seat in own.seats:
            shown = f"{spark}/{seat.replica}" if seat.replicas else spark
            SPARKS[shown] = seat
            if name in chosen and seat in own.chosen_seats:
                CHOSEN.append(shown)


def concerns(fixtures: Sequence[str], target: SparkTarget) -> bool:
    """Tell whether a test is about such a Spark."""
    if "fabric" in fixtures and not target.fabric:
        return False
    asks = {"api", "client", "address"}.intersection(fixtures)
    if asks and "host" not in fixtures and target.rank != 0:
        return False
    return bool(target.recipe_name) or "release" not in fixtures


def is_local(spark: str) -> bool:
    """Tell whether a Spark is the machine that verifies."""
    return bool(_HOSTS[spark]["pyinfra_name"] == "@local")


@cache
def _sockets() -> Path:
    """Make the folder of ssh's sockets, one a Spark, when the first is needed.

    Each command goes through its Spark's one connection, which is closed at the end: a login a
    command would take ten times as long. In /tmp, as a socket's path has 107 characters at most.
    """
    return Path(tempfile.mkdtemp(prefix="verify-", dir="/tmp"))


@cache
def reached(spark: str) -> tuple[Host, str]:
    """Return a connection to a Spark, and why it cannot be used, in a sentence; "" if it can."""
    data = _HOSTS[spark]
    if is_local(spark):
        host = testinfra.get_host("local://", sudo=True)
    else:
        user = f"{data['ssh_user']}@" if "ssh_user" in data else ""
        address = data.get("ssh_hostname", spark)
        options = f"-o BatchMode=yes {_ALIVE}"
        if "ssh_known_hosts_file" in data:
            options += f" -o UserKnownHostsFile={data['ssh_known_hosts_file']}"
        way = f"ssh://{user}{address}:{data.get('ssh_port', 22)}"
        files = {"ssh_identity_file": data.get("ssh_key"), "controlpath": str(_sockets() / spark)}
        host = testinfra.get_host(way, sudo=True, ssh_extra_args=options, **files)
    try:
        answer = host.run("true")
    except RuntimeError as error:  # ssh's own failure
        (answer,) = error.args
    said = " ".join(answer.stderr.split())
    return host, plain(f"{spark}: found no way in as root: {said}") if answer.rc else ""


def connection(spark: str) -> Host:
    """Return a connection to a Spark, as root; fail with a sentence if it does not answer."""
    host, problem = reached(spark)
    if problem:
        pytest.fail(problem, pytrace=False)
    return host


def part_of(host: Host, ask: Ask[P]) -> P:
    """Return a part of what a Spark is, as a run reads it."""
    program = state_program(frozenset({ask.model.part}))
    command = f"printf '%%s\\n' %s %s | {RUN}"
    return ask.value(host.check_output(command, program, f"[{ask.key}]"))


def all_unready() -> list[str]:
    """Return why chosen Sparks cannot be verified, a sentence each; they are asked at once."""
    _sockets()
    pool = ThreadPoolExecutor()
    try:
        return [problem for problem in pool.map(unready, CHOSEN) if problem]
    finally:
        # After Ctrl-C, nobody waits for an ssh.
        pool.shutdown(wait=False)


def disconnect() -> None:
    """Close all connections."""
    if not _sockets.cache_info().currsize:
        return
    for socket in _sockets().iterdir():
        close = ["ssh", "-o", f"ControlPath={socket}", "-O", "exit", socket.name]
        subprocess.run(close, capture_output=True, check=False)
    # ssh removes a socket itself, maybe at this moment.
    shutil.rmtree(_sockets(), ignore_errors=True)


@cache
def unready(name: str) -> str:
    """Return why a Spark of `SPARKS` cannot be verified, in a sentence; "" if it can."""
    target = SPARKS[name]
    host, problem = reached(target.spark)
    if problem or not target.recipe_name:
        return problem
    current = host.file(f"{target.place}/current")
    release = Path(current.linked_to).name if current.is_symlink else ""
    units = [f"vllm@{release}", *([] if target.rank else [door_unit(target.place)])]
    states = [host.service(unit).systemd_properties["ActiveState"] for unit in units if release]
    if target.on_demand and release and states[0] in ("inactive", "activating", "deactivating"):
        RESTING.add(name)
        return ""
    try:
        return unserved(name, release, states, lambda: _answer(target))
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
    return "" if status in (requests.codes.ok, "") else said(f"its door answers {status}", "doctor")


def _answer(target: SparkTarget) -> int | str:
    address, why = address_of(target)
    if why:
        return ""
    try:
        return client_of(target, address)("GET", "/v1/models", timeout=_PATIENCE).status_code
    except requests.RequestException as error:
        return f"nothing at {address}:{target.port} ({type(error).__name__})"


def address_of(target: SparkTarget) -> tuple[str, str]:
    """Return where clients reach a door, as `bind` or SSH's settings say, and why we cannot."""
    bind, spark = ip_address(target.settings.bind), target.spark
    own = "" if bind.is_unspecified else str(bind)
    if is_local(spark):
        return own or "127.0.0.1", ""
    if bind.is_loopback:
        return own, f"only {spark} itself reaches its door"
    line = ["ssh", "-G", _HOSTS[spark].get("ssh_hostname") or spark]
    told = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    options = dict(line.split(" ", 1) for line in told.splitlines() if " " in line)
    jump = options.get("proxyjump", "none")
    behind = f"{spark} is behind {jump}: its door cannot be reached from here"
    return own or options["hostname"], "" if jump == "none" else behind


def client_of(target: SparkTarget, address: str) -> Client:
    """Return what sends requests through a door, from here; with the fleet's key unless told."""
    base = f"http{'s' if target.settings.secured else ''}://{bracketed(address)}:{target.port}"
    own = "none" if target.api_key == "none" else api_keys(target.fleet)[0]

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
