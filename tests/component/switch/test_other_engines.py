"""Engines that a switch finds beside the one it is to start, or to leave."""

from tests.component.servers import until
from tests.component.switch.conftest import LONG, NEW, OLD, OTHER, Spark, is_new


def test_a_previous_one_that_did_not_run_is_left_as_it_was(served: Spark) -> None:
    served.systemctl("stop", OLD)
    served.behaves(NEW, "fails")
    assert served.switch() == 1
    assert served.running == []
    assert served.boots == [OLD]
    assert (served.report["previous"], served.report["restored"]) == (OLD, False)


def test_a_release_that_boots_already_is_only_started(served: Spark) -> None:
    assert served.switch() == 0
    served.systemctl("stop", NEW)
    assert served.switch(orders={"trial": LONG}) == 0
    is_new(served)
    assert served.history == [OLD, NEW]
    served.systemctl("stop", NEW)
    served.behaves(NEW, "fails")
    assert served.switch() == 1
    assert served.boots == [NEW]
    assert served.report["previous"] is None


def test_what_was_started_by_hand_is_stopped(served: Spark) -> None:
    served.release(OTHER)
    served.systemctl("start", OTHER)
    until(lambda: served.active(OTHER))
    assert served.switch() == 0
    is_new(served)


def test_of_three_that_boot_one_is_left(served: Spark) -> None:
    """What somebody has enabled by hand would take the memory after a power cut."""
    served.release(OTHER)
    (served.state / f"wants/vllm@{OTHER}.service").symlink_to("/etc/vllm@.service")
    assert served.switch() == 0
    is_new(served)
