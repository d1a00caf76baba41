"""Where both engines do not fit, the new release does what needs no GPU before the old stops."""

import os
import signal
from pathlib import Path

import pytest

from tests.component.servers import until
from tests.component.switch.conftest import BESIDE, LONG, NEW, OLD, Spark, is_new

RUN = """
mkdir -p {sockets}
echo "standby of {name}" >>"$STATE/log"
[ "$SPARKWRIGHT_STANDBY" = standby ] || exit 1
echo $$ >"$STATE/pid"
[ -e "$STATE/never" ] || touch {sockets}/waiting
exec sleep infinity
"""
REMOVED = f"rm --force vllm-{NEW}-standby"


@pytest.fixture
def standing(served: Spark) -> Spark:
    """A Spark whose new release is to have a standby, and whose old one has one."""
    file = served.root / "releases" / NEW / "run"
    own = RUN.format(sockets=served.root / "sockets/engines" / NEW, name=NEW)
    (served.root / "sockets/engines" / NEW).mkdir(parents=True)
    file.write_text(file.read_text().partition("\nmkdir ")[0] + own)
    file.chmod(0o755)
    served.unit(NEW, standby=1)
    (served.root / f"state/standby@{OLD}").mkdir()
    (served.root / f"state/standby@{OLD}/alive").touch()
    return served


def waiting(spark: Spark) -> Path:
    return spark.root / f"state/standby@{NEW}/waits"


def test_the_new_release_waits_before_the_old_one_stops(standing: Spark) -> None:
    assert standing.switch() == 0
    is_new(standing)
    assert waiting(standing).exists()
    acts = standing.acts()
    order = [f"rm --force vllm-{OLD}-standby", f"standby of {NEW}", "door hold"]
    order += [f"stop vllm@{OLD}", f"start --no-block vllm@{NEW}"]
    assert [act for act in acts if act in order] == order
    assert REMOVED not in acts
    os.kill(int((standing.state / "pid").read_text()), signal.SIGKILL)


def test_a_release_that_does_not_start_leaves_no_standby(standing: Spark) -> None:
    standing.behaves(NEW, "fails")
    assert standing.switch() == 1
    assert standing.running == [OLD]
    assert not waiting(standing).parent.exists()
    assert REMOVED in standing.acts()


def test_a_stop_while_it_gets_ready_touches_nothing_else(standing: Spark) -> None:
    (standing.state / "never").touch()
    standing.start()
    standing.wait_phase("preparing")
    until((standing.state / "pid").exists)
    standing.signal(signal.SIGTERM)
    assert standing.end() == 1
    assert standing.running == [OLD]
    assert f"stop vllm@{OLD}" not in standing.acts()
    assert not waiting(standing).parent.exists()


@pytest.mark.parametrize("room", [0, 1 << 60])
def test_without_room_it_starts_as_ever(standing: Spark, room: int) -> None:
    standing.unit(NEW, standby=room)
    assert standing.switch() == 0
    is_new(standing)
    assert f"standby of {NEW}" not in standing.acts()


def test_an_old_one_that_came_back_ends_with_its_engine(standing: Spark) -> None:
    """The new release has none, so the old engine made another while it drained.

    A worker ends with its head, before it is told to stop.
    """
    standing.unit(NEW, standby=1 << 60)
    busy, old = standing.state / f"busy-{OLD}", standing.root / f"state/standby@{OLD}"
    busy.write_text("1")
    standing.start(orders={"drain": LONG})
    standing.wait_phase("draining")
    assert not old.exists()
    old.mkdir()
    busy.write_text("0")
    assert standing.end() == 0
    is_new(standing)
    assert not old.exists()
    acts = standing.acts()
    assert acts[acts.index(f"stop vllm@{OLD}") + 1] == f"rm --force vllm-{OLD}-standby"


def test_beside_the_old_one_it_needs_none(standing: Spark) -> None:
    assert standing.switch(orders=BESIDE) == 0
    assert f"standby of {NEW}" not in standing.acts()


def test_one_that_ends_at_once_keeps_nothing_from_serving(standing: Spark) -> None:
    run = standing.root / "releases" / NEW / "run"
    run.write_text(run.read_text().replace("exec sleep infinity", "exit 1").replace("touch", "#"))
    assert standing.switch() == 0
    is_new(standing)
    assert not waiting(standing).parent.exists()
