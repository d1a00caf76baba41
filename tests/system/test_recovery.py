"""What befalls two Sparks that serve one model: both ranks restart by themselves, in time."""

import time
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from tests.driver.declared import changed, seed
from tests.driver.events import DEAD_RANK, EVENTS, bounded
from tests.driver.load import Load, load
from tests.driver.pairs import Pair
from tests.driver.product import DEPLOY, pyinfra
from tests.driver.sparks import current, until

# Seconds for which the cable is out: longer than TCP's retries are close together, and less than
# the 20 s that engines have been seen to sit out.
OUTAGE = 12
# Whether the link has brought something within the last 10 s.
HEARD = r"ss -tinH '( sport = :29500 or dport = :29500 )' | grep -qE 'lastrcv:[0-9]{1,4}( |$)'"

# Left to the campaign: the other member is tried with the same fault.
LIKE_THE_OTHER = {
    "the worker's container is removed",
    "systemctl restart on the head",
    "the worker loses its power",
    "the head reboots",
}

pytestmark = pytest.mark.usefixtures("with_standbys")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.campaign] * (name in LIKE_THE_OTHER))
        for name in EVENTS
    ],
)
def test_both_restart_by_themselves(
    serving: Pair,
    start: float,
    boot: Callable[[], float],
    name: str,
    record_property: Callable[[str, object], None],
) -> None:
    event = EVENTS[name]
    with load(serving.head) if name == DEAD_RANK else nullcontext(Load()) as seen:
        seconds = serving.recovery(event.strike)
    # What comes meanwhile waits at the door.
    assert seen.unread == []
    measured = bounded(serving, event.fault, seconds, start, boot)
    record_property("measured", f"{name}: {measured}; {len(seen.failed)} answers broke off")


def test_a_dead_rank_is_followed_by_both_standbys(serving: Pair) -> None:
    """The engines of both go on from what waits on each."""
    release, lives = current(serving.head), serving.lives()
    identity = f"sudo docker inspect --format '{{{{.Id}}}}' vllm-{release}"
    for spark in serving.both:
        until(spark, f"test -e /opt/qwen36/state/standby@{release}/waits", timeout=300)
    waiting = serving.each(lambda spark: spark.run(f"{identity}-standby").stdout)
    serving.worker.run(f"sudo docker kill vllm-{release}")
    serving.wait_serving(lives)
    assert serving.each(lambda spark: spark.run(identity).stdout) == waiting


def test_a_switch_goes_on_from_the_standbys_of_both(serving: Pair) -> None:
    """They are the new release's, and are made while the previous one serves."""
    with changed("other", seed(1)):
        pyinfra(DEPLOY).succeeded()
        told = f"sudo journalctl --no-pager -u vllm@{current(serving.head)}"
        logs = serving.each(lambda spark: spark.run(told).stdout)
    pyinfra(DEPLOY).succeeded()
    assert [log.count("its standby goes on as the engine") for log in logs] == [1, 1]


@pytest.mark.parametrize("which", ["head", "worker"])
def test_a_deliberate_stop_stays_until_the_start(serving: Pair, which: str) -> None:
    serving.forget()
    unit, stopped = serving.unit(), getattr(serving, which)
    other = serving.worker if which == "head" else serving.head
    stopped.run(f"sudo systemctl stop {unit}")
    waits = f"systemctl show -P StatusText {unit} | grep -q 'waiting for {stopped.name}'"
    until(other, waits)
    for spark in serving.both:
        assert spark.run("sudo docker ps -q").stdout == ""
    assert stopped.run(f"systemctl is-active {unit}", check=False).stdout.strip() == "inactive"
    stopped.run(f"sudo systemctl start --no-block {unit}")
    serving.wait_serving()


def test_a_cable_that_is_put_back_ends_no_life(serving: Pair) -> None:
    """Both supervisors and both engines go on where they were; TCP brings what was under way."""
    lives = serving.lives()
    assert all(lives)
    serving.worker.cable(False)
    time.sleep(OUTAGE)
    for spark in serving.both:
        assert spark.run(HEARD, check=False).returncode
    serving.worker.cable(True)
    for spark in serving.both:
        until(spark, HEARD)
    assert serving.ask()
    assert serving.lives() == lives
