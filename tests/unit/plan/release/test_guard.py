"""The slices of engines: laid down, known to systemd, and known as ours."""

from typing import Any

from sparkwright.common.placed import unit_names
from sparkwright.machine.host.operations.services import guarded
from sparkwright.plan.release.container import ALONE, PAIR, guard_files
from tests.unit.driven import fake_host, file_of, placed

FILES = guard_files("/r", ("192.168.100.11",), internet=False)
THERE = {file.path: file_of(str(file.text)) for file in FILES}


def commands(there: dict[str, dict[str, Any]], unread: list[str]) -> list[str]:
    """Return what is done on a Spark with such files, of which systemd has not read some."""
    units = {unit: f"loaded {'unread' if unit in unread else ''}" for unit in (ALONE, PAIR)}
    spark = fake_host(state={"placed": placed(there, units)}, root="/r")
    assert spark.run(guarded, entries=FILES).did_succeed()
    return spark.scripts()


def test_what_is_in_force_is_left_alone() -> None:
    assert commands(THERE, []) == []


def test_a_change_is_read_by_systemd() -> None:
    # A run that died after the file is finished by the next.
    assert commands(THERE, [ALONE]) == ["systemctl daemon-reload"]
    done = commands({FILES[0].path: THERE[FILES[0].path]}, [])
    assert any(PAIR in line for line in done[:-1])
    assert done[-1] == "systemctl daemon-reload"


def test_they_leave_with_the_rest() -> None:
    assert {ALONE, PAIR} <= set(unit_names())
