"""What befalls two Sparks that serve one model: both ranks restart by themselves, in time."""

import pytest

from tests.e2e.conftest import DEPLOY, pyinfra
from tests.e2e.events import EVENTS, plain_start, recovery
from tests.e2e.sparks import until

# Seconds: what a recovery may take beside 1.5 times a plain start.
DETECTION = 45


@pytest.fixture(scope="module")
def start(pair) -> float:
    """Seconds of a plain start of both engines, up to an answer."""
    pyinfra(DEPLOY).succeeded()
    return plain_start(pair)


@pytest.mark.parametrize("name", EVENTS)
def test_both_restart_by_themselves(pair, start, name, record_property):
    event, boot = EVENTS[name]
    seconds = recovery(pair, event)
    record_property("measured", f"{name}: {seconds:.0f} s; a plain start: {start:.0f} s")
    assert seconds <= 1.5 * start + DETECTION + boot


@pytest.mark.parametrize("which", ["head", "worker"])
def test_a_deliberate_stop_stays_until_the_start(pair, start, which):
    pair.forget()
    unit, stopped = pair.unit(), getattr(pair, which)
    other = pair.worker if which == "head" else pair.head
    stopped.run(f"sudo systemctl stop {unit}", timeout=120)
    waits = f"systemctl show -P StatusText {unit} | grep -q 'waiting for {stopped.name}'"
    until(other, waits, 60)
    for spark in pair.both:
        assert spark.run("sudo docker ps -q").stdout == ""
    assert stopped.run(f"systemctl is-active {unit}", check=False).stdout.strip() == "inactive"
    stopped.run(f"sudo systemctl start --no-block {unit}")
    pair.wait_serving()
