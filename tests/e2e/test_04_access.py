"""Hosts that cannot be reached, or are not who they were: no host is touched."""

import pytest

from tests.e2e.conftest import DEPLOY, PROJECT, pyinfra


@pytest.fixture
def fleet():
    """The lab's inventory file, put back afterwards."""
    path = PROJECT / "inventory/lab.yaml"
    text = path.read_text()
    yield path
    path.write_text(text)


def test_an_unreachable_host(spark, fleet):
    fleet.write_text(fleet.read_text().replace("10.213.0.11", "10.213.0.99"))
    run = pyinfra(DEPLOY)
    assert run.status == 1
    assert run.changed == frozenset()


def test_a_host_key_that_changed(spark, fleet, tmp_path):
    known = tmp_path / "known_hosts"
    found = next(
        line.split(": ")[1] for line in fleet.read_text().splitlines() if "known_hosts" in line
    )
    kind, other = (
        "ssh-ed25519",
        "AAAAC3NzaC1lZDI1NTE5AAAAIGVgzDfa0ZTrVv2Xm5bFZbBbq4V9kRkVQ2i9nXJYw0Yd",
    )
    known.write_text(f"10.213.0.11 {kind} {other}\n")
    fleet.write_text(fleet.read_text().replace(found, str(known)))
    run = pyinfra(DEPLOY)
    assert run.status == 1
    assert run.changed == frozenset()
