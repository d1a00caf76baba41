"""A Spark that drops out of a run: what the run says. By SSH, on this machine."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clock import patience
from tests.component import command_line
from tests.component.servers import until
from tests.component.sshd import Machine, machines

INVENTORY = """
def _spark(name, port):
    return name, {
        "ssh_hostname": "127.0.0.1", "ssh_port": port, "ssh_user": "ann", "ssh_key": "user-key",
        "ssh_known_hosts_file": "known_hosts", "ssh_allow_agent": False, "spark": name,
        "replica": name, "ranks": [name], "rank": 0, "root": "/nowhere/qwen36",
    }

hosts = [_spark(*each) for each in PORTS]
# As inventory.py has it: sparkwright/run/inventory/groups.py.
from pyinfra import state as _state
from sparkwright.run.failures import expect_failures as _expect_failures
_expect_failures(_state)
"""
# On the Spark b, each step waits in the place of which it is asked: a command, a fact, an upload.
DEPLOY = """
import time
from io import StringIO
from pathlib import Path
from pyinfra import host, inventory, state
from pyinfra.api import FactBase, FunctionCommand, StringCommand, operation
from pyinfra.api.exceptions import PyinfraError
from pyinfra.operations import files
from sparkwright.run.session import start_session

HERE = Path(__file__).parent

class Slow(FactBase):
    def command(self, seconds):
        return f"touch $MACHINE/asked; sleep {seconds}; echo done"

    def process(self, output):
        return output

def tell(word):
    (HERE / f"{host.data.spark}-{word}").touch()

def lost():
    while host.connector._is_connected():
        time.sleep(0.02)

@operation()
def work(where):
    seconds = 600 if host.data.spark == "b" else 0
    tell("begun")
    try:
        if where == "command":
            yield StringCommand(f"touch $MACHINE/asked; sleep {seconds}")
        if where == "fact" and state.is_executing:
            assert host.get_fact(Slow, seconds=seconds) == ["done"]
        if where == "between" and state.is_executing:
            if seconds:
                tell("waits")
                lost()
            host.get_fact(Slow, seconds=0)
        if where == "peer" and state.is_executing and host.data.spark == "a":
            inventory.get_host("b").get_fact(Slow, seconds=600)
        if where == "callback":
            yield FunctionCommand(callback, (seconds,), {})
        if where == "handled":
            yield FunctionCommand(handled, (seconds,), {})
        yield StringCommand("true")
        tell("done")
    finally:
        tell("cleared")

def callback(seconds):
    host.get_fact(Slow, seconds=seconds)

def handled(state, host, seconds):
    try:
        host.get_fact(Slow, seconds=seconds)
    except PyinfraError:
        return False
    return True

start_session(lease=True)
work(name="First", where=WHERE)
work(name="Second", where="")
work(name="Third", where="")
"""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Machine]]:
    with machines(tmp_path_factory.mktemp("sparks"), "a", "b", "c") as found:
        yield found


@pytest.fixture
def sparks(tmp_path: Path, running: dict[str, Machine]) -> dict[str, Machine]:
    """The three, all on, and an inventory that nobody has used yet."""
    for machine in running.values():
        machine.reset()
    ports = [(name, machine.port) for name, machine in running.items()]
    key = running["a"].folder.parent / "user-key"
    inventory = INVENTORY.replace("PORTS", repr(ports)).replace("user-key", str(key))
    (tmp_path / "inventory.py").write_text(inventory)
    (tmp_path / "known_hosts").touch()
    return running


def _deploy(folder: Path, where: str = "", first: str = "") -> None:
    (folder / "deploy.py").write_text(first + DEPLOY.replace("WHERE", repr(where)))


def _run(folder: Path, *options: str) -> tuple[int, str]:
    status, said = command_line.run(folder, *options)
    assert "Traceback" not in said, said
    assert "of hosts failed" not in said
    return status, said


def _run_losing(folder: Path, spark: Machine, *options: str) -> str:
    """Run, and cut the power of a Spark when it is asked for something; return what was said."""
    with command_line.start(folder, *options) as run:
        try:
            until(lambda: _asked(folder, spark) or run.poll() is not None)
        finally:
            spark.power_off()
        said, _ = run.communicate(timeout=patience())
    assert run.returncode == 1, said
    assert "Traceback" not in said, said
    assert "of hosts failed" not in said
    return said


def _asked(folder: Path, spark: Machine) -> bool:
    return (spark.folder / "asked").exists() or (folder / "b-waits").exists()


@pytest.mark.parametrize("where", ["command", "fact", "between", "callback", "handled"])
def test_a_spark_loses_its_power_amid_an_operation(
    tmp_path: Path, sparks: dict[str, Machine], where: str
) -> None:
    _deploy(tmp_path, where)
    said = _run_losing(tmp_path, sparks["b"], "-y")
    assert said.count("b: lost at: First: the connection") == 1, said
    assert "no power, no network, or a reboot" in said
    assert "Completed operations remain" in said
    assert "Not done on any Spark: Second, Third" in said
    assert "continue with: pyinfra -y inventory.py deploy.py\n" in said
    assert "To go on without it: pyinfra -y inventory.py deploy.py --exclude b\n" in said
    assert "--> Starting operation: Second" not in said
    for name in ("a-done", "c-done", "b-cleared"):
        assert (tmp_path / name).exists(), said
    assert not (tmp_path / "b-done").exists()


def test_a_spark_is_lost_at_which_another_one_looks(
    tmp_path: Path, sparks: dict[str, Machine]
) -> None:
    """As the head of a pair looks at its worker: it is the worker that is named."""
    _deploy(tmp_path, "peer")
    said = _run_losing(tmp_path, sparks["b"], "-y")
    assert "b: lost at: First: the connection" in said
    assert "a: lost" not in said
    assert (tmp_path / "a-cleared").exists()
    assert (tmp_path / "c-done").exists()
    assert "--> Starting operation: Second" not in said


def test_the_only_spark_is_lost(tmp_path: Path, sparks: dict[str, Machine]) -> None:
    _deploy(tmp_path, "fact")
    said = _run_losing(tmp_path, sparks["b"], "-y", "--limit", "b")
    assert "b: lost at: First: " in said
    assert "continue with: pyinfra -y --limit b inventory.py deploy.py\n" in said
    assert "To go on without it" not in said


def test_a_spark_is_lost_while_the_run_is_planned(
    tmp_path: Path, sparks: dict[str, Machine]
) -> None:
    """Nobody is asked whether to go on: it would be with facts that are none."""
    _deploy(tmp_path, "fact", first="from pyinfra import state; state.is_executing = True\n")
    said = _run_losing(tmp_path, sparks["b"], "--dry")
    assert "b: lost at: First: the connection ended" in said
    assert "continue?" not in said


def _other_key(spark: Machine) -> None:
    spark.power_off()
    spark.new_host_key()
    spark.power_on()


@pytest.mark.parametrize(
    ("befalls", "option", "words"),
    [
        (Machine.power_off, ["-y"], "it refuses the connection: is it on"),
        (Machine.refuse_keys, ["--dry"], "it rejects this SSH key"),
        (_other_key, [], "it shows another host key than before"),
    ],
)
def test_a_spark_that_nobody_gets_to(
    tmp_path: Path,
    sparks: dict[str, Machine],
    befalls: Callable[[Machine], None],
    option: list[str],
    words: str,
) -> None:
    _deploy(tmp_path)
    assert _run(tmp_path, "--dry")[0] == 0
    befalls(sparks["b"])
    for path in tmp_path.glob("*-begun"):
        path.unlink()
    # Without -y pyinfra would ask whether to go on.
    status, said = _run(tmp_path, *option)
    assert status == 1
    assert f"b: no connection: {words}" in said, said
    assert "Nothing was changed on any Spark." in said
    assert "deploy.py --exclude b\n" in said
    assert not list(tmp_path.glob("*-begun"))


def test_the_other_sparks_stay_this_runs_alone(tmp_path: Path, sparks: dict[str, Machine]) -> None:
    """One of three loses its power: nobody else gets at the others before the run has ended."""
    often = "from sparkwright.run import lease\nlease.BEAT = 0.05\n"
    _deploy(tmp_path, "command", first=often)
    deploy = tmp_path / "deploy.py"
    waits = "while host.data.spark != 'b' and not (HERE / 'end').exists(): time.sleep(0.02)"
    deploy.write_text(deploy.read_text().replace('        tell("done")', f"        {waits}"))
    with command_line.start(tmp_path, "-y") as first:
        try:
            until((sparks["b"].folder / "asked").exists)
            sparks["b"].power_off()
            sparks["b"].power_on()
            for name in ("a", "c"):
                status, said = _run(tmp_path, "-y", "--limit", name)
                assert status == 1
                assert f"{name}: found another run at work on it (" in said
        finally:
            (tmp_path / "end").touch()
        said, _ = first.communicate(timeout=patience())
    assert first.returncode == 1
    assert "b: lost at: First: " in said
    assert "--> Starting operation: Second" not in said
    assert "Traceback" not in said
    _deploy(tmp_path)
    status, said = _run(tmp_path, "-y")
    assert status == 0, said
