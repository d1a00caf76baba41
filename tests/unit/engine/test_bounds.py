"""Times of probes, links and the unit, added up to the bound of a hang."""

import re

from host.common import probe
from host.engine import peer_link, supervisor
from sparkwright.common.paths import FILES

# Seconds until a container is removed, as systemd starts the next run: measured in the lab.
ENDS = 3
# Of a link whose cable was dead for 16 to 20 s, from a line to the next one: measured.
RETRIED = 27.7
UNIT = (FILES / "host/engine/vllm@.service").read_text()


def seconds(setting: str) -> int:
    found = re.search(rf"^{setting}=(\d+)$", UNIT, re.MULTILINE)
    assert found
    return int(found[1])


def test_a_group_serves_within_a_start_and_30_seconds_of_a_hang() -> None:
    found = max(probe.found_within(probe.FAILURES), seconds("WatchdogSec"))
    assert found + ENDS + seconds("RestartSec") < 30


def test_a_supervisor_that_is_late_is_not_killed() -> None:
    """At a load of 13 to 33 on two processors, its pauses were 2 s at the most."""
    assert seconds("WatchdogSec") - supervisor.PING > 15


def test_a_link_outlasts_a_cable_that_is_dead_for_20_seconds() -> None:
    assert RETRIED + peer_link.BEAT < peer_link.SILENCE
