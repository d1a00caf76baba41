"""The status of a fleet: reading, warnings and table."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from host.engine.startup import keep
from host.state import status
from sparkwright.common.errors import PlanError
from sparkwright.common.hardware import GIB
from sparkwright.common.startup import last_starts
from sparkwright.engine.state import EngineUnit
from sparkwright.insight.status.deploy import settled
from sparkwright.insight.status.state import Reading, Turn
from sparkwright.insight.status.status import as_json, table, turns, warnings
from sparkwright.run.options import RunOptions, options_of
from tests.makers.doctor import NOW, hard_down
from tests.makers.gpu import gpu
from tests.makers.models import changed
from tests.makers.status import LOAD, RELEASE, SERVES, UNIT, row


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Read a folder as a Spark's, of which systemd says this of its engines."""

    def reading(*engines: EngineUnit) -> Reading:
        units = {each.release: each.model_dump() for each in engines}
        monkeypatch.setattr(status, "engines", lambda: units)
        monkeypatch.setattr(status, "load", lambda *_: LOAD.model_dump())
        return Reading.ask().value(json.dumps({"known": status.read(str(tmp_path / "root"))}))

    return reading


def test_a_reading(read: Any, tmp_path: Path) -> None:
    root = tmp_path / "root"
    release = root / "releases" / RELEASE
    release.mkdir(parents=True)
    (release / "release.json").write_text('{"recipe": "lab-tiny", "served_names": ["tiny"]}')
    (root / "current").symlink_to(f"releases/{RELEASE}")
    for name, text in (
        ("state/gpu-clock", "2200\n"),
        ("metrics/spark.prom", 'spark_door_requests_waiting{spark="a"} 7\n'),
    ):
        (root / name).parent.mkdir()
        (root / name).write_text(text)
    starts = changed(UNIT, release="lab-tiny-99999999", active="activating", starting=True)
    ended = changed(UNIT, release="lab-tiny-88888888", active="failed")
    found = read(UNIT, starts, ended)
    assert (found.release, found.recipe, found.models) == (RELEASE, "lab-tiny", ("tiny",))
    assert (found.unit, found.since, found.load) == (UNIT, 1795240000, LOAD)
    assert (found.others, found.switches) == (("lab-tiny-99999999",), ())
    assert (found.clock_limit, found.held) == (2200, 7)
    # Of one that has ended systemd still says when it began.
    failed = read(changed(UNIT, active="failed"))
    assert (failed.since, failed.load) == (None, None)
    os.utime(root / "metrics/spark.prom", (1, 1))
    assert read(UNIT).held is None


def test_the_last_starts_are_told(read: Any, tmp_path: Path) -> None:
    root = tmp_path / "root"
    content = {"recipe": "lab-tiny", "image": "i", "served_names": []}
    for path, text in (
        (f"releases/{RELEASE}/release.json", json.dumps(content)),
        ("state/starts", ""),
    ):
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text(text)
    (root / "current").symlink_to(f"releases/{RELEASE}")
    assert last_starts(read(UNIT).starts) == last_starts(()) == ""
    for seconds, end in ((497.3, "ended"), (172.6, "serving"), (900, "late"), (49.2, "standby")):
        keep(root, RELEASE, seconds, end, [])
    reading = read(UNIT)
    assert last_starts(reading.starts) == "starts: 49 s (standby), 900 s (late), 173 s (warm)"
    (entry,) = json.loads(as_json([row(reading)], 0))["sparks"]
    assert [each["seconds"] for each in entry["starts"]] == [497.3, 172.6, 900, 49.2]


def test_a_machine_without_anything_is_read(read: Any) -> None:
    found = read()
    assert (found.release, found.recipe, found.load, found.since) == (None, None, None, None)
    assert found.memory_total > found.memory_available > 0
    assert found.disk_free > 0


def test_the_table_has_a_line_for_each_spark() -> None:
    since = int(time.mktime((2026, 11, 21, 9, 5, 0, 0, 0, -1)))
    serves = changed(SERVES, unit=changed(UNIT, since=since, restarts=2))
    idle = changed(SERVES, release=None, recipe=None, unit=None, load=None)
    rows = [
        row(serves),
        row(changed(serves, load=None), spark="spark-b", rank=1),
        row(None, spark="c"),
        row(idle, spark="d", replica=None, recipe=None, rank=None),
    ]
    head, a, b, c, d = table(rows)
    assert " ".join(head.split()) == (
        "spark replica recipe release up since tok/s requests KV drafts GiB MHz W °C restarts "
        "standby"
    )
    assert " ".join(a.split()) == (
        "spark-a chat lab-tiny 0a1b2c3d 21 Nov 09:05 40 4+2 25 % 63 % 70/122 2405 61 67 2 -"
    )
    assert b.split()[7:11] == ["-", "-", "-", "-"]
    assert c.split() == ["c", "chat", "lab-tiny", "-", "no", "answer", *"-" * 10]
    assert d.split()[:5] == ["d", "-", "-", "-", "idle"]
    # Numbers line up on their right.
    assert {line.index(" 2405") for line in (a, b, d)} == {head.index("  MHz")}
    other = row(serves, recipe="lab-built")
    assert RELEASE in table([other])[1]


BUSY = changed(LOAD, kv_usage=0.99)
ASSIGNED = "runs, but the inventory assigns no replica to this Spark"
WENT_DOWN = changed(UNIT, active="failed", status="it went down")


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_narrow_terminal_gets_fewer_columns(width: int) -> None:
    rows = [row(SERVES), row(None)]
    head, *lines = table(rows, width)
    assert max(map(len, (head, *lines))) <= width
    assert {"spark", "release", "tok/s"} <= set(head.split())
    assert len(head.split()) < len(table(rows)[0].split())


@pytest.mark.parametrize(
    ("reading", "changes", "said"),
    [
        (None, {}, "no answer"),
        (changed(SERVES, release=None, unit=None), {}, "lab-tiny was not set up yet"),
        (SERVES, {"recipe": "lab-built"}, "lab-tiny is set up; the inventory asks for lab-built"),
        (SERVES, {"recipe": None, "rank": None}, f"{RELEASE} {ASSIGNED}"),
        (changed(SERVES, others=("x-1",)), {}, "vllm@x-1 runs as well"),
        (changed(SERVES, others=("x-1",), switches=("x-1",)), {}, "a switch to x-1 is under way"),
        (changed(SERVES, unit=None), {}, "the engine is not there"),
        (changed(SERVES, unit=WENT_DOWN), {}, "the engine is failed (it went down)"),
        (changed(SERVES, load=None), {}, "does not answer /metrics"),
        (changed(SERVES, unit=changed(UNIT, restarts=2)), {}, "started again 2 times"),
        (changed(SERVES, door="failed"), {}, "the door is failed"),
        (changed(SERVES, held=12), {}, "the door holds 12 requests"),
        (changed(SERVES, load=BUSY), {}, "the KV cache is full, and 2 requests wait"),
        (changed(SERVES, gpu=gpu(611, 30, 97)), {}, "held back: 611 MHz and 30 W"),
        (changed(SERVES, memory_available=4 * GIB), {}, "4.0 GiB of memory are left"),
        (changed(SERVES, disk_free=GIB), {}, "1.0 GiB are free"),
    ],
)
def test_what_somebody_should_look_at(
    reading: Reading | None, changes: dict[str, Any], said: str
) -> None:
    (warning,) = warnings(row(reading, **changes))
    assert said in warning


def test_a_hard_end_is_told_with_its_cause() -> None:
    told = row(changed(SERVES, down=hard_down("power")))
    (said,) = warnings(told)
    assert said == "it went down hard; cause power; sparkwright doctor shows its last seconds"
    (entry,) = json.loads(as_json([told], 0))["sparks"]
    assert entry["hard_down"] == {"at": NOW - 400, "back": NOW - 280, "cause": "power"}
    (entry,) = json.loads(as_json([row(SERVES)], 0))["sparks"]
    assert entry["hard_down"] is None


@pytest.mark.parametrize("on_demand", [False, True])
def test_a_missing_spark_is_told_with_what_the_others_can_serve(on_demand: bool) -> None:
    status = "missing for 15 min: spark-c at 10.0.0.3: no answer"
    waits = changed(UNIT, active="activating", status=status)
    reading = changed(SERVES, unit=waits, turn=Turn(**TURN) if on_demand else None)
    offer = "Until then spark-a can serve chat: x"
    told = warnings(row(reading, on_demand=on_demand, offer=offer))
    assert [*told] == [
        f"the engine is activating ({status})",
        "Until then spark-a can serve chat: x",
    ]


class Group:
    """A replica that is served without those that its supervisors miss."""

    ranks = ("spark-a", "spark-b", "spark-c")

    def offer(self, lost: list[str]) -> str:
        return f"without {','.join(lost)}"


def test_what_serves_without_a_spark_that_is_back_is_offered_to_nobody() -> None:
    """It misses the others, and waits for the next run."""
    status = "missing for 15 min: spark-a at 10.0.0.1: no answer"
    waits = changed(SERVES, unit=changed(UNIT, active="activating", status=status))
    back, others = row(waits, spark="spark-c"), (row(SERVES), row(None))
    seats: Any = [Group()] * 3
    told = settled(seats, [back, *others])
    assert [each.offer for each in told] == ["", "", ""]
    told = settled(seats, [back, row(waits, replica="batch"), row(SERVES, replica="third")])
    assert [each.offer for each in told] == ["without spark-a", "without spark-a", ""]


def test_nothing_is_said_of_a_sound_spark() -> None:
    assert list(warnings(row(SERVES))) == []
    # A worker has neither an API nor a door.
    worker = changed(SERVES, load=None, door="inactive")
    assert list(warnings(row(worker, rank=1))) == []
    slow_and_idle = changed(SERVES, gpu=gpu(208, 4, 0))
    assert list(warnings(row(slow_and_idle))) == []


TURN = {"phase": "stopped", "closed": False, "waiting": 0, "starts": 3, "hits": 120}
TURN |= {"refused": 1, "seconds": 95, "why": ""}


def test_a_turn_is_read_by_the_seat(
    read: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = tmp_path / "turns.json"
    monkeypatch.setattr(status, "_TURNS", str(tmp_path))
    manifest = tmp_path / "root/manifests/turns.json"
    manifest.parent.mkdir(parents=True)
    assert read().turn is None
    own = {"seat": "", "on_demand": True}
    manifest.write_text(
        json.dumps({"replicas": {"always": own | {"on_demand": False}, "chat": own}})
    )
    assert read().turn is None
    said.write_text(json.dumps({"chat": TURN | {"more": 1}, "embed": TURN | {"starts": 9}}))
    assert read().turn == Turn(**TURN)  # type: ignore[arg-type]
    for damaged in ("[]", "{", '{"chat": 7}', '{"chat": {}}'):
        said.write_text(damaged)
        assert read().turn is None


@pytest.mark.parametrize("active", ["inactive", "activating", "deactivating", None])
def test_a_model_that_requests_start_may_be_stopped(active: str | None) -> None:
    unit = active and changed(UNIT, active=active)
    reading = changed(SERVES, unit=unit, load=None, held=2, turn=Turn(**TURN))  # type: ignore[arg-type]
    rests = row(reading, on_demand=True)
    assert not [*warnings(rests)]
    assert [*warnings(row(reading))]
    (entry,) = json.loads(as_json([rests], 0))["sparks"]
    assert (entry["on_demand"], entry["turn"]) == (True, TURN)
    assert turns(rests) == ("stopped, 0 wait; 3 starts and 120 requests so far; a start takes 95 s")
    assert turns(row(reading)) == ""
    assert ("on demand" in table([rests])[1]) is (active in ("inactive", None))
    refused = changed(reading, turn=Turn(**TURN | {"why": "its start failed"}))  # type: ignore[arg-type]
    assert [*warnings(row(refused, on_demand=True))] == ["requests are refused: its start failed"]


def test_one_that_nothing_starts_is_told() -> None:
    (said,) = warnings(row(SERVES, on_demand=True))
    assert said == "no request can start it; systemctl status turns tells why"


def test_one_that_failed_is_told_in_any_case() -> None:
    reading = changed(SERVES, unit=WENT_DOWN, turn=Turn(**TURN))  # type: ignore[arg-type]
    failed = row(reading, on_demand=True)
    assert [*warnings(failed)] == ["the engine is failed (it went down)"]


def test_json_for_machines() -> None:
    limited = changed(SERVES, clock_limit=2200)
    told = json.loads(as_json([row(limited), row(None, spark="b")], 1795247432.5))
    a, b = told["sparks"]
    assert told["time"] == 1795247432.5
    assert (a["release"], a["up_since"], a["tokens_per_second"]) == (RELEASE, 1795240000, 40.0)
    assert (a["state"], a["gpu_power_w"], a["warnings"]) == ("active", 61.42, [])
    assert a["gpu_clock_max_mhz"] == 2200
    assert a["memory_used_bytes"] == (127601452 - 54525952) * 1024
    assert (b["answers"], len(b["warnings"])) == (False, 1)


@pytest.mark.parametrize(
    ("option", "values", "expected"),
    [
        ("watch", ("soon", 0, 3601, True, 1.5, [5]), "seconds from 1 to 3600"),
        ("json", ("", "folder/", 5, True), "the path"),
    ],
)
def test_a_refresh_is_some_seconds_and_json_goes_to_a_file(
    option: str, values: tuple[object, ...], expected: str
) -> None:
    for value in values:
        with pytest.raises(PlanError, match=f"--data {option}: found .*; expected {expected}"):
            options_of({option: value})
    assert (RunOptions().watch, options_of({"watch": 5}).watch) == (None, 5)
    told = [options_of({"json": each}).json_target for each in (None, "-", "s.json")]
    assert told == [None, "-", "s.json"]
