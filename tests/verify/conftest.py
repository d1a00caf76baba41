"""Verification of real or virtual Sparks, on the inventory that pyinfra uses.

pytest tests/verify [--inventory inventory/lab.py] [--reboot]
"""

import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import requests
import testinfra
from testinfra.host import Host

from sparkwright.door.keys import api_keys
from sparkwright.fleet.fabric_plan import FabricPlan
from sparkwright.release.lock import Lock, lock_path, read_lock
from sparkwright.release.release import Release
from sparkwright.run.spark import SparkTarget

Api = Callable[..., str]
Client = Callable[..., requests.Response]

_sparks: dict[str, dict[str, Any]] = {}

# A dead connection is noticed, so that a test may reboot the Spark.
_ALIVE = "-o ServerAliveInterval=5 -o ServerAliveCountMax=2"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--inventory", default="inventory.py", help="the inventory, as for pyinfra (inventory.py)"
    )
    parser.addoption(
        "--reboot", action="store_true", help="also reboot each Spark, and see it serve again"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test on every Spark of the inventory that it concerns, as its fixtures tell."""
    if "spark" in metafunc.fixturenames:
        sparks = _load(metafunc.config.getoption("--inventory"))
        names = [name for name, data in sparks.items() if _concerns(metafunc.fixturenames, data)]
        none = pytest.param("none", marks=pytest.mark.skip("concerns no Spark of this inventory"))
        metafunc.parametrize("spark", names or [none], scope="session")


def _concerns(fixtures: Sequence[str], data: dict[str, Any]) -> bool:
    """Tell whether a test is about such a Spark."""
    if "fabric" in fixtures and not SparkTarget.of(data).fabric:
        return False
    asks = {"api", "client", "address"}.intersection(fixtures)
    if asks and "host" not in fixtures and data["rank"] != 0:
        return False
    return bool(data["recipe"]) or "release" not in fixtures


def _load(inventory: str) -> dict[str, dict[str, Any]]:
    """Read all that pyinfra knows of each Spark: inventory and group data."""
    if not _sparks:
        pyinfra = str(Path(sys.executable).with_name("pyinfra"))
        answer = subprocess.run(
            [pyinfra, inventory, "debug-inventory", "--json"],
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode:
            raise pytest.UsageError(answer.stderr)
        hosts = [
            {"pyinfra_name": host["name"], **host["data"]} for host in json.loads(answer.stdout)
        ]
        _sparks.update({data["spark"]: data for data in hosts})
    return _sparks


@pytest.fixture(scope="session")
def data(spark: str) -> dict[str, Any]:
    """Inventory and group data of the Spark, as a deploy sees them."""
    return _sparks[spark]


@pytest.fixture(scope="session")
def host(data: dict[str, Any]) -> Host:
    """The Spark itself, as root."""
    return _connection(data["spark"])


@pytest.fixture(scope="session")
def head(data: dict[str, Any]) -> Host:
    """The head of the Spark's replica, which is the Spark itself where it serves alone."""
    return _connection(data["ranks"][0])


@pytest.fixture(scope="session")
def peer(fabric: FabricPlan) -> Host:
    """The other Spark of a pair."""
    return _connection(fabric.peer)


@cache
def _sockets() -> Path:
    """Make the folder of ssh's sockets, one a Spark, when the first is needed.

    Each command goes through its Spark's one connection, which is closed at the end: a login a
    command would take ten times as long. In /tmp, as a socket's path has 107 characters at most.
    """
    return Path(tempfile.mkdtemp(prefix="verify-", dir="/tmp"))


@cache
def _connection(spark: str) -> Host:
    data = _sparks[spark]
    if data["pyinfra_name"] == "@local":
        return testinfra.get_host("local://", sudo=True)
    user = f"{data['ssh_user']}@" if "ssh_user" in data else ""
    address = data.get("ssh_hostname", data["spark"])
    options = f"-o BatchMode=yes {_ALIVE}"
    if "ssh_known_hosts_file" in data:
        options += f" -o UserKnownHostsFile={data['ssh_known_hosts_file']}"
    return testinfra.get_host(
        f"ssh://{user}{address}:{data.get('ssh_port', 22)}",
        sudo=True,
        ssh_identity_file=data.get("ssh_key"),
        ssh_extra_args=options,
        controlpath=str(_sockets() / spark),
    )


def pytest_sessionfinish() -> None:
    if not _sockets.cache_info().currsize:
        return
    for socket in _sockets().iterdir():
        close = ["ssh", "-o", f"ControlPath={socket}", "-O", "exit", socket.name]
        subprocess.run(close, capture_output=True, check=False)
    # ssh removes a socket itself, maybe at this moment.
    shutil.rmtree(_sockets(), ignore_errors=True)


@pytest.fixture(scope="session")
def lock(data: dict[str, Any]) -> Lock:
    """What the names in recipes stood for when the fleet was deployed."""
    return read_lock(lock_path(Path(data["fleet"])))


@pytest.fixture(scope="session")
def release(data: dict[str, Any], lock: Lock) -> Release:
    """What the Spark should serve."""
    served = SparkTarget.of(data).release_by(lock)
    assert served
    return served


@pytest.fixture(scope="session")
def fabric(data: dict[str, Any]) -> FabricPlan:
    """The Spark's part of its pair's own network."""
    plan = SparkTarget.of(data).fabric
    assert plan
    return plan


@pytest.fixture(scope="session")
def api(head: Host, release: Release) -> Api:
    """Send a request to the engine from the head itself; return the answer's text."""
    return _api(head, release)


@pytest.fixture(scope="session")
def lone_api(data: dict[str, Any], lock: Lock) -> Api:
    """The same for a replica of one Spark with the same recipe; without one, skip."""
    for other in _sparks.values():
        if other["recipe"] == data["recipe"] and len(other["ranks"]) == 1:
            alone = SparkTarget.of(other).release_by(lock)
            assert alone
            return _api(_connection(other["spark"]), alone)
    pytest.skip(f"no replica of one Spark serves {data['recipe']}: nothing to compare with")


def _api(head: Host, release: Release) -> Api:
    def ask(path: str, body: dict[str, Any] | None = None, timeout: float = 120) -> str:
        data = f"--header 'Content-Type: application/json' --data {shlex.quote(json.dumps(body))}"
        answer: str = head.check_output(
            f"curl --silent --show-error --fail-with-body --max-time {timeout} "
            f"{data if body else ''} {release.url}{path}"
        )
        return answer

    return ask


@pytest.fixture(scope="session")
def address(data: dict[str, Any]) -> str:
    """Where clients reach the Spark; SSH may know it by another name, and by a way of its own."""
    if data["pyinfra_name"] == "@local":
        return "127.0.0.1"
    name = data.get("ssh_hostname", data["spark"])
    told = subprocess.run(["ssh", "-G", name], capture_output=True, text=True, check=True).stdout
    options = dict(line.split(" ", 1) for line in told.splitlines() if " " in line)
    if options.get("proxyjump", "none") != "none":
        pytest.skip(
            f"{name} is behind {options['proxyjump']}: its door cannot be reached from here"
        )
    return options["hostname"]


@pytest.fixture(scope="session")
def client(data: dict[str, Any], address: str) -> Client:
    """Send a request through the door, from here; with the fleet's key unless another is given."""
    secure = SparkTarget.of(data).settings.secured
    base = f"http{'s' if secure else ''}://{address}:{data['port']}"
    (own, *_) = api_keys(Path(data["fleet"])) if data["api_key"] != "none" else ("none",)

    def ask(
        method: str, path: str, body: object = None, key: str | None = own, stream: bool = False
    ) -> requests.Response:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        # A certificate names the Spark as its clients do, which may not be as pyinfra does.
        return requests.request(
            method,
            base + path,
            json=body,
            headers=headers,
            stream=stream,
            timeout=120,
            verify=False,
        )

    return ask


@pytest.fixture
def proved(request: pytest.FixtureRequest, spark: str) -> Callable[[str], None]:
    """Note a sentence for the summary: what this test has just proved."""
    return lambda sentence: request.node.user_properties.append((spark, sentence))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say for each Spark what was proved."""
    sentences = defaultdict(list)
    for report in terminalreporter.getreports("passed"):
        for spark, sentence in report.user_properties:
            sentences[spark].append(sentence)
    for spark, lines in sentences.items():
        terminalreporter.section(f"proved on {spark}")
        for line in lines:
            terminalreporter.line(f"  {line}")
