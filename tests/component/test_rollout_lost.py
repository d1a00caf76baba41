"""A rollout whose Spark dies in its switch: the others stay this run's alone until it has ended."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clock import patience
from tests.component import command_line
from tests.component.servers import until
from tests.component.sshd import Machine, machines
from tests.component.test_lost import INVENTORY
from tests.component.test_rollout import DEPLOY

# b's switch lasts until its power is gone; c, whose turn has not come, then waits for the test.
SLOW = """
from sparkwright.run.lease import hold_lease

def attempt(release, settings, peer, outcome):
    log("switch")
    outcome.attempted, outcome.previous, outcome.seconds = True, serves(), 0.2
    if host.data.spark == "b":
        yield StringCommand("touch $MACHINE/asked; sleep 600")
    yield StringCommand("true")
    serves("new")
    outcome.served = True

class Turn(rollout.Event):
    def wait(self):
        super().wait()
        while host.data.spark == "c" and (HERE / "dead").exists() and not (HERE / "end").exists():
            time.sleep(0.02)

rollout.attempt, rollout.Event = attempt, Turn
hold_lease()
"""


@pytest.fixture
def sparks(tmp_path: Path) -> Iterator[dict[str, Machine]]:
    """Three Sparks, each a replica of its own."""
    with machines(tmp_path, "a", "b", "c") as found:
        ports = [(name, machine.port) for name, machine in found.items()]
        key = str(tmp_path / "user-key")
        inventory = INVENTORY.replace("PORTS", repr(ports)).replace("user-key", key)
        (tmp_path / "inventory.py").write_text(inventory)
        deploy = DEPLOY.replace("start_session()\n", f"{SLOW}start_session()\n", 1)
        (tmp_path / "deploy.py").write_text(deploy)
        (tmp_path / "fails.json").write_text("{}")
        (tmp_path / "serves.json").write_text(json.dumps(dict.fromkeys("abc", "old")))
        (tmp_path / "known_hosts").touch()
        yield found


def test_nobody_else_gets_at_the_others_of_a_rollout(
    tmp_path: Path, sparks: dict[str, Machine]
) -> None:
    with command_line.start(tmp_path, "-y") as first:
        try:
            until(lambda: (sparks["b"].folder / "asked").exists() or first.poll() is not None)
            (tmp_path / "dead").touch()
            sparks["b"].power_off()
            for name in ("a", "c"):
                status, said = command_line.run(tmp_path, "-y", "--limit", name)
                assert status == 1, said
                assert f"{name}: found another run at work on it (" in said
        finally:
            sparks["b"].power_off()
            (tmp_path / "end").touch()
        said, _ = first.communicate(timeout=patience())
    assert first.returncode == 1, said
    assert "Traceback" not in said
    assert "b: lost at: " in said
    assert "the Spark stopped responding" in said
    # c's turn never came; a serves what it was to serve, and is free again.
    assert json.loads((tmp_path / "serves.json").read_text()) == {
        "a": "new",
        "b": "old",
        "c": "old",
    }
    (tmp_path / "log").unlink()
    sparks["b"].power_on()
    (tmp_path / "deploy.py").write_text(
        (tmp_path / "deploy.py").read_text().replace("sleep 600", "true")
    )
    status, said = command_line.run(tmp_path, "-y")
    assert status == 0, said
    assert set(json.loads((tmp_path / "serves.json").read_text()).values()) == {"new"}
