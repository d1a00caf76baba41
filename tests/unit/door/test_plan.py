"""What a door is to be, and how its state is read."""

from pathlib import Path

import pytest

from sparkwright.door.certificates import read_certificate
from sparkwright.door.door import mark
from sparkwright.door.state import DoorState, parse_door
from tests.unit.certificates import certificate, private_key, written
from tests.unit.door.plans import KEY, OTHER, files, plan
from tests.unit.units import said_of_units


def test_what_is_in_force_is_told_by_all_that_it_is_made_of(tmp_path: Path) -> None:
    written(tmp_path, certificate(key := private_key(), days=90), key)
    tls = read_certificate(str(tmp_path / "tls.crt"), str(tmp_path / "tls.key"))
    plans = [
        plan(8000),
        plan(8001),
        plan(8000, keys=[OTHER]),
        plan(8000, keys=None),
        plan(8000, certificate=tls),
    ]
    marks = {mark(files(each)) for each in plans}
    assert len(marks) == len(plans)
    for each in plans:
        texts = "".join(text or "" for text in files(each).values())
        assert KEY not in texts
        assert OTHER not in texts


def test_a_clean_host_and_one_with_a_door_are_told_apart() -> None:
    clean = [
        "@@installed",
        "@@stray",
        "@@elsewhere",
        "@@taken",
        "@@there",
        "@@files",
        *said_of_units({"door.service": ""}),
        "@@running",
    ]
    assert parse_door(clean) == DoorState(
        None,
        stray=False,
        elsewhere=False,
        taken=(),
        there=False,
        active=False,
        enabled=False,
        outdated=False,
        version="",
        mark="",
        files={},
    )
    running = [
        *("@@installed", "2.8.5-1ubuntu3.4", "@@stray", "enabled", "inactive"),
        *("@@elsewhere", "@@taken", "nginx (pid 7)", "@@there", "/r/door"),
        *("@@files", "0a1b  /r/door/keys", "600  /r/door/keys"),
        *said_of_units({"door.service": "active enabled outdated"}),
        *("@@running", "version 2.8.5-1ubuntu3.3", "mark 0a"),
    ]
    assert parse_door(running) == DoorState(
        "2.8.5-1ubuntu3.4",
        stray=True,
        elsewhere=False,
        taken=("nginx (pid 7)",),
        there=True,
        active=True,
        enabled=True,
        outdated=True,
        version="2.8.5-1ubuntu3.3",
        mark="0a",
        files={"keys": ("600", "0a1b")},
    )
    with pytest.raises(ValueError, match="running"):
        parse_door(clean[:-1])
