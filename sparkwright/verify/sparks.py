"""The Sparks of an inventory as pyinfra sees them, and the connections to them."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import testinfra
from testinfra.host import Host

from sparkwright.common.errors import PlanError
from sparkwright.common.terminal import plain
from sparkwright.declared.fleet.group_data import checked_group_data, data_of_spark
from sparkwright.run.inventory.data import choose_replicas, selected
from sparkwright.run.inventory.groups import groups_of_python
from sparkwright.run.spark import SparkTarget, fleet_of

Data = dict[str, Any]

# What `load` has read, by the Spark's name: of one that serves two replicas, by SPARK/REPLICA.
SPARKS: dict[str, Data] = {}
# Those of them that `--limit` leaves, in their order.
CHOSEN: dict[str, None] = {}

# One that is off is given up soon. A dead connection is noticed, so that a test may reboot a Spark.
_ALIVE = "-o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=2"


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
        fleet = fleet_of(Path(data["fleet"]))
        own = {**data_of_spark(fleet, data["spark"], files), **data}
        seats = dict(_seats({"pyinfra_name": name, **own}))
        SPARKS.update(seats)
        if name in chosen:
            meant = [each for each in seats if seats[each]["replica"] in data.get("chosen", ())]
            CHOSEN.update(dict.fromkeys(meant or seats))


def _seats(data: Data) -> Iterator[tuple[str, Data]]:
    """Yield the name and data of a Spark, or of each replica where it serves two."""
    for seat in SparkTarget.of(data).seats:
        if not seat.replicas:
            yield data["spark"], data
            continue
        own = {
            "replica": seat.replica,
            "recipe": seat.recipe_name,
            "port": seat.port,
            "api_key": seat.api_key,
            "seat": seat.seat,
        }
        yield f"{data['spark']}/{seat.replica}", data | own


def concerns(fixtures: Sequence[str], data: Data) -> bool:
    """Tell whether a test is about such a Spark."""
    if "fabric" in fixtures and not SparkTarget.of(data).fabric:
        return False
    asks = {"api", "client", "address"}.intersection(fixtures)
    if asks and "host" not in fixtures and data["rank"] != 0:
        return False
    return bool(data["recipe"]) or "release" not in fixtures


@cache
def _sockets() -> Path:
    """Make the folder of ssh's sockets, one a Spark, when the first is needed.

    Each command goes through its Spark's one connection, which is closed at the end: a login a
    command would take ten times as long. In /tmp, as a socket's path has 107 characters at most.
    """
    return Path(tempfile.mkdtemp(prefix="verify-", dir="/tmp"))


def connection(spark: str) -> Host:
    """Return a connection to a Spark, as root; fail with a sentence if it does not answer."""
    host, problem = reached(spark)
    if problem:
        pytest.fail(problem, pytrace=False)
    return host


def at_once(ask: Callable[[str], str]) -> list[str]:
    """Ask something of each chosen Spark, at once."""
    _sockets()
    pool = ThreadPoolExecutor()
    try:
        return [*pool.map(ask, CHOSEN)]
    finally:
        # After Ctrl-C, nobody waits for an ssh.
        pool.shutdown(wait=False)


@cache
def reached(spark: str) -> tuple[Host, str]:
    """Return a connection to a Spark, and why it cannot be used, in a sentence; "" if it can."""
    data = next(each for each in SPARKS.values() if each["spark"] == spark)
    if data["pyinfra_name"] == "@local":
        host = testinfra.get_host("local://", sudo=True)
    else:
        user = f"{data['ssh_user']}@" if "ssh_user" in data else ""
        address = data.get("ssh_hostname", data["spark"])
        options = f"-o BatchMode=yes {_ALIVE}"
        if "ssh_known_hosts_file" in data:
            options += f" -o UserKnownHostsFile={data['ssh_known_hosts_file']}"
        host = testinfra.get_host(
            f"ssh://{user}{address}:{data.get('ssh_port', 22)}",
            sudo=True,
            ssh_identity_file=data.get("ssh_key"),
            ssh_extra_args=options,
            controlpath=str(_sockets() / spark),
        )
    try:
        answer = host.run("true")
    except RuntimeError as error:  # ssh's own failure
        (answer,) = error.args
    said = " ".join(answer.stderr.split())
    return host, plain(f"{spark}: found no way in as root: {said}") if answer.rc else ""


def disconnect() -> None:
    """Close all connections."""
    if not _sockets.cache_info().currsize:
        return
    for socket in _sockets().iterdir():
        close = ["ssh", "-o", f"ControlPath={socket}", "-O", "exit", socket.name]
        subprocess.run(close, capture_output=True, check=False)
    # ssh removes a socket itself, maybe at this moment.
    shutil.rmtree(_sockets(), ignore_errors=True)
