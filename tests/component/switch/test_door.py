"""The door in a switch: one that fails, and ports that no two engines can have."""

import pytest

from tests.component.switch.conftest import BESIDE, Spark, is_old


@pytest.mark.parametrize("orders", [{}, BESIDE])
@pytest.mark.parametrize("call", ["offer", "prefer"])
def test_a_door_that_does_not_do_it(served: Spark, orders: dict[str, bool], call: str) -> None:
    (served.state / f"door-{call}-fails").touch()
    assert served.switch(orders=orders) == 1
    is_old(served)
    assert served.report["message"] == f"{call} failed"
