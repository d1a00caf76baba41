"""Hosts that cannot be reached, or are not who they were: no host is touched."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.driver.product import DEPLOY, pyinfra
from tests.lab.spark import Handle
from tests.lab.state import FLEET, KNOWN_HOSTS


@pytest.fixture
def fleet(spark: Handle) -> Iterator[Path]:
    """The lab's inventory file, put back afterwards."""
    text = FLEET.read_text()
    yield FLEET
    FLEET.write_text(text)


def test_an_unreachable_host(fleet: Path) -> None:
    fleet.write_text(fleet.read_text().replace("10.213.0.11", "10.213.0.99"))
    pyinfra(DEPLOY).refused("Could not connect")


def test_a_host_key_that_changed(spark: Handle, fleet: Path, tmp_path: Path) -> None:
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / "key")]
    subprocess.run(make, check=True)
    kind, other, _ = (tmp_path / "key.pub").read_text().split(maxsplit=2)
    known = tmp_path / "known_hosts"
    known.write_text(f"{spark.address} {kind} {other}\n")
    fleet.write_text(fleet.read_text().replace(str(KNOWN_HOSTS), str(known)))
    pyinfra(DEPLOY).refused("Host key")
    assert known.read_text().count("\n") == 1
