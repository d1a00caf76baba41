"""Why a Spark cannot be reached: the first cause is named, also one on the way to it. Real SSH."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forked
from tests.component.command_line import PROJECT
from tests.component.sshd import Machine, machines

INVENTORY = """
hosts = [("spark-a", {"spark": "spark-a", "replica": "a", "ranks": ["spark-a"], "rank": 0, **DATA})]
from pyinfra import state as _state
from sparkwright.run.failures import expect_failures as _expect_failures
_expect_failures(_state)
"""
DEPLOY = "from pyinfra.operations import server\nserver.shell(name='Here', commands='true')\n"
# A connection, by standard input and output.
RELAY = """
import os, socket, sys, threading
there = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
def copy(read, write):
    while block := read(65536):
        write(block)
    os._exit(0)
threading.Thread(target=copy, args=(there.recv, lambda block: os.write(1, block))).start()
copy(lambda size: os.read(0, size), there.sendall)
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with machines(tmp_path_factory.mktemp("sparks"), "a") as found:
        yield found["a"]


@pytest.fixture
def spark(machine: Machine) -> Machine:
    machine.reset()
    return machine


def _key(spark: Machine) -> str:
    return str(spark.folder.parent / "user-key")


def _run(folder: Path, config: str, home: str | None = None, **data: object) -> tuple[int, str]:
    """Run a deploy with an SSH configuration; return its exit status, and what it says."""
    (folder / ".ssh").mkdir(mode=0o700, exist_ok=True)
    (folder / ".ssh/config").write_text(config)
    settings = {"ssh_allow_agent": False, "ssh_strict_host_key_checking": "accept-new", **data}
    (folder / "inventory.py").write_text(INVENTORY.replace("DATA", repr(settings)))
    (folder / "deploy.py").write_text(DEPLOY)
    environment = os.environ | {"PYTHONPATH": str(PROJECT), "HOME": home or str(folder)}
    done = forked.run(["-y", "inventory.py", "deploy.py"], cwd=folder, env=environment)
    said = done.stdout + done.stderr
    assert "Traceback" not in said, said
    return done.returncode, said


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("ProxyJump bastion.nosuch", "its jump host bastion.nosuch (ProxyJump in ~/.ssh/config)"),
        ("ProxyJump me@127.0.0.1:1", "its jump host me@127.0.0.1:1 (ProxyJump in ~/.ssh/config)"),
        ("ProxyCommand false", "its ProxyCommand in ~/.ssh/config fails; run it by"),
        ("HostName", "a line of ~/.ssh/config has no value: HostName"),
        ("Port ssh", "~/.ssh/config has ssh where a number is expected, such as that of a port"),
        ("ProxyJump spark-a", "a `Host *` with a ProxyJump would jump to itself: except the jump"),
    ],
)  # fmt: skip
def test_the_way_to_it(tmp_path: Path, way: str, said: str) -> None:
    status, told = _run(tmp_path, f"Host spark-a\n    {way}\n")
    assert status == 1
    assert f"spark-a: no connection: {said}" in told


def test_a_jump_host_that_lets_nobody_in_or_through(tmp_path: Path, spark: Machine) -> None:
    config = (
        f"Host spark-a\n  ProxyJump jump\nHost jump\n  HostName 127.0.0.1\n  Port {spark.port}\n"
        f"  IdentityFile {_key(spark)}\n  StrictHostKeyChecking accept-new\n"
    )
    _, said = _run(tmp_path, config)
    assert "no connection: its jump host jump forwards no connections: AllowTcpForwarding" in said
    spark.refuse_keys()
    _, said = _run(tmp_path, config)
    assert "no connection: its jump host jump (ProxyJump in ~/.ssh/config) cannot be passed" in said


def test_a_proxy_command_that_works(tmp_path: Path, spark: Machine) -> None:
    (tmp_path / "relay.py").write_text(RELAY)
    command = f"{sys.executable} {tmp_path}/relay.py {spark.port}"
    status, said = _run(tmp_path, f"Host spark-a\n ProxyCommand {command}\n", ssh_key=_key(spark))
    assert status == 0, said


def test_remedies_have_the_key_and_the_file_of_host_keys(tmp_path: Path, spark: Machine) -> None:
    known = str(tmp_path / "known hosts")
    data = spark.reached(ssh_known_hosts_file=known)
    Path(known).touch()
    assert _run(tmp_path, "", **data)[0] == 0
    spark.refuse_keys()
    _, said = _run(tmp_path, "", **data)
    assert f"ssh-copy-id -i {_key(spark)} -p {spark.port} ann@127.0.0.1, or correct" in said
    assert f"`ssh -i {_key(spark)} -p {spark.port} ann@127.0.0.1` must log in" in said
    spark.power_off()
    spark.new_host_key()
    spark.reset()
    _, said = _run(tmp_path, "", **data)
    assert f"ssh-keygen -R '[127.0.0.1]:{spark.port}' -f '{known}'" in said


def test_a_home_that_is_not_there(tmp_path: Path, spark: Machine) -> None:
    _, said = _run(tmp_path, "", home="/nosuch", **spark.reached())
    assert "no connection: the file for host keys cannot be written (" in said
    assert "/nosuch/.ssh/known_hosts" in said
