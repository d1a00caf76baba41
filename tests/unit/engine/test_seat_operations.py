"""A second replica that the inventory names no more: all that is its own goes."""

import pytest

from sparkwright.engine.operations.power import vacated
from tests.makers.engine import engines, unit
from tests.unit.driven import Driven, fake_host, placed


def spark(*seats: str) -> Driven:
    """A Spark whose other seats each have an engine, and a switch under way."""
    folder = {"kind": "directory", "user": "root", "group": "root", "mode": "755"}
    files = {f"/r/seats/{name}": folder for name in (*seats, "embed/state") if seats}
    units = {"b-1": unit("b-1", "active", enabled=True)}
    own = engines(current="b-1", switches="b-2") | {"units": units}
    found = {"placed": placed({"/r/seats": folder} | files), "engines": own}
    return fake_host(state=found, root="/r", recipe="", spark="a")


@pytest.mark.parametrize("seats", [[], ["embed"]])
def test_what_is_declared_is_left_as_it_is(seats: list[str]) -> None:
    assert not spark(*seats).run(vacated, root="/r", wanted=seats).did_change()


def test_what_nobody_declares_goes_and_the_first_one_stays() -> None:
    driven = spark("embed")
    assert driven.run(vacated, root="/r", wanted=[]).did_change()
    text = "\n".join(driven.scripts())
    assert "systemctl stop switch@b-2.service" in text
    assert "disable --quiet --now vllm@b-1.service" in text
    assert "disable --quiet --now door@embed.service" in text
    assert (
        "rm -rf /r/door/seats/embed /r/sockets/seats/embed /r/state/seats/embed /r/seats/embed"
        in text
    )
    assert "rm -f /etc/systemd/system/door@.service" in text


def test_another_one_stays() -> None:
    driven = spark("embed", "rank")
    driven.run(vacated, root="/r", wanted=["rank"])
    text = "\n".join(driven.scripts())
    assert "/r/seats/embed" in text
    assert "rmdir" not in text
    assert "door@.service" not in text
