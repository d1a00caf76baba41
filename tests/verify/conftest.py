"""Verification of real or virtual Sparks, on the inventory that pyinfra uses.

pytest tests/verify [--inventory inventory/lab.py] [--reboot]
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import testinfra
from pyinfra.api import Config, State
from pyinfra.api.host import Host as PyinfraHost
from pyinfra.context import ctx_host, ctx_state
from pyinfra_cli.inventory import make_inventory
from testinfra.host import Host

from deploys.plan.lock import Lock
from deploys.plan.release import Release
from deploys.steps import context

_hosts: dict[str, PyinfraHost] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--inventory", default="inventory.py", help="the inventory, as for pyinfra (inventory.py)"
    )
    parser.addoption(
        "--reboot",
        action="store_true",
        help="also reboot every Spark and verify that it serves again",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run every test on every Spark of the inventory; `served` ones on those of a replica."""
    if "spark" not in metafunc.fixturenames:
        return
    hosts = _load(metafunc.config.getoption("--inventory"))
    names = [
        name
        for name, host in hosts.items()
        if "release" not in metafunc.fixturenames or host.data.get("recipe")
    ]
    metafunc.parametrize("spark", names, scope="session")


def _load(inventory: str) -> dict[str, PyinfraHost]:
    if not _hosts:
        if not Path(inventory).exists():
            raise pytest.UsageError(f"{inventory}: no such inventory; run from the project root")
        loaded = make_inventory(inventory, cwd=str(Path.cwd()))
        ctx_state.set(State(loaded, Config()))
        _hosts.update({host.data.get("spark"): host for host in loaded})
    return _hosts


@pytest.fixture(scope="session")
def data(spark: str) -> Iterator[Any]:
    """Inventory and group data of the Spark, as a deploy sees them."""
    with ctx_host.use(_hosts[spark]):
        yield _hosts[spark].data


@pytest.fixture(scope="session")
def host(data: Any) -> Host:
    """The Spark itself, as root."""
    if _hosts[data.spark].name == "@local":
        return testinfra.get_host("local://", sudo=True)
    user = f"{data.ssh_user}@" if data.get("ssh_user") else ""
    address = data.get("ssh_hostname") or data.spark
    options = ["-o BatchMode=yes"]
    if data.get("ssh_known_hosts_file"):
        options.append(f"-o UserKnownHostsFile={data.ssh_known_hosts_file}")
    return testinfra.get_host(
        f"ssh://{user}{address}:{data.get('ssh_port') or 22}",
        sudo=True,
        ssh_identity_file=data.get("ssh_key"),
        ssh_extra_args=" ".join(options),
    )


@pytest.fixture(scope="session")
def release(data: Any) -> Release:
    """What the Spark should serve."""
    wanted = context.release()
    assert wanted
    return wanted


@pytest.fixture(scope="session")
def lock(data: Any) -> Lock:
    """What the names in the Spark's recipe stand for."""
    return context.lock()


@pytest.fixture
def proved(request: pytest.FixtureRequest, spark: str) -> Callable[[str], None]:
    """Note a sentence for the summary: what this test has just proved."""
    return lambda sentence: request.node.user_properties.append((spark, sentence))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say for each Spark what was proved."""
    sentences = defaultdict(list)
    for report in terminalreporter.getreports("passed"):
        for spark, sentence in report.user_properties:
            if report.when == "teardown":
                sentences[spark].append(sentence)
    for spark, lines in sentences.items():
        terminalreporter.section(f"proved on {spark}")
        for line in lines:
            terminalreporter.line(f"  {line}")
