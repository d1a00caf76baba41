"""The slices of engines: laid down, known to systemd, and known as ours."""

from sparkwright.common.placed import unit_names
from sparkwright.machine.host.operations.services import guarded
from sparkwright.plan.release.guard import ALONE, PAIR, guard_files
from tests.unit.driven import fake_host, said_of_file

FILES = guard_files("/r", ("192.168.100.11",), internet=False)
THERE = [said_of_file(file.path, file.text) for file in FILES]


def commands(there: list[list[str]], unread: list[str]) -> list[str]:
    """Return what is done on a Spark with such files, of which systemd has not read some."""
    spark = fake_host(
        {"NeedDaemonReload": unread, "stat ": [line for each in there for line in each]}
    )
    assert spark.run(guarded, entries=FILES).did_succeed()
    facts = ("NeedDaemonReload", "stat ")
    return [line for line in spark.scripts() if not any(fact in line for fact in facts)]


def test_what_is_in_force_is_left_alone() -> None:
    assert commands(THERE, []) == []


def test_a_run_that_died_after_the_file_is_finished_by_the_next() -> None:
    assert commands(THERE, [ALONE]) == ["systemctl daemon-reload"]


def test_a_change_is_read_by_systemd() -> None:
    done = commands([THERE[0], [f"none\tNo such file or directory\t{FILES[1].path}"]], [])
    assert any(PAIR in line for line in done[:-1])
    assert done[-1] == "systemctl daemon-reload"


def test_they_leave_with_the_rest() -> None:
    assert {ALONE, PAIR} <= set(unit_names())
