"""Verification of real or virtual Sparks, on the inventory that pyinfra uses.

pytest tests/verify [--inventory inventory/lab.py] [--reboot]
"""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import testinfra
from testinfra.host import Host

from deploys.plan.lock import Lock, lock_path, read_lock
from deploys.plan.recipe import load_recipe
from deploys.plan.release import Release, make_release

_sparks: dict[str, dict[str, Any]] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--inventory", default="inventory.py", help="the inventory, as for pyinfra (inventory.py)"
    )
    parser.addoption(
        "--reboot", action="store_true", help="also reboot each Spark, and see it serve again"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test on every Spark of the inventory, those of a release where one should serve."""
    if "spark" in metafunc.fixturenames:
        sparks = _load(metafunc.config.getoption("--inventory"))
        served = "release" in metafunc.fixturenames
        names = [name for name, data in sparks.items() if data["recipe"] or not served]
        metafunc.parametrize("spark", names, scope="session")


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
    if data["pyinfra_name"] == "@local":
        return testinfra.get_host("local://", sudo=True)
    user = f"{data['ssh_user']}@" if "ssh_user" in data else ""
    address = data.get("ssh_hostname", data["spark"])
    options = "-o BatchMode=yes"
    if "ssh_known_hosts_file" in data:
        options += f" -o UserKnownHostsFile={data['ssh_known_hosts_file']}"
    return testinfra.get_host(
        f"ssh://{user}{address}:{data.get('ssh_port', 22)}",
        sudo=True,
        ssh_identity_file=data.get("ssh_key"),
        ssh_extra_args=options,
    )


@pytest.fixture(scope="session")
def lock(data: dict[str, Any]) -> Lock:
    """What the names in recipes stood for when the fleet was deployed."""
    return read_lock(lock_path(Path(data["fleet"])))


@pytest.fixture(scope="session")
def release(data: dict[str, Any], lock: Lock) -> Release:
    """What the Spark should serve."""
    settings = {key: data[key] for key in ("root", "bind", "port")}
    return make_release(load_recipe(data["recipe"]), lock, **settings)


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
