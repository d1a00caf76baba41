"""The door in a switch: one that fails, and ports that no two engines can have."""

import pytest

from tests.component.switch.conftest import BESIDE, NEW, OLD, Spark, is_new, is_old


@pytest.mark.parametrize("orders", [{}, BESIDE])
@pytest.mark.parametrize("call", ["offer", "prefer"])
def test_a_door_that_does_not_do_it(served: Spark, orders: dict[str, bool], call: str) -> None:
    (served.state / f"door-{call}-fails").touch()
    assert served.switch(orders=orders) == 1
    is_old(served)
    assert served.report["message"] == f"{call} failed"


def test_two_of_one_port_are_not_side_by_side(served: Spark) -> None:
    """Ports are made of the content: two may have the same."""
    for name in ("unit.json", "release.json"):
        text = (served.root / f"releases/{OLD}/{name}").read_text()
        (served.root / f"releases/{NEW}/{name}").write_text(text)
    assert served.switch(orders=BESIDE) == 0
    assert served.report["beside"] is False
    is_new(served)
