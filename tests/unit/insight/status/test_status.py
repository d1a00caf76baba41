"""The status of a fleet: parser, warnings and table."""

import json
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.common.hardware import GIB
from sparkwright.common.placed import unit_names
from sparkwright.engine.metrics import EngineLoad
from sparkwright.insight.doctor.checkup import parse_checkup
from sparkwright.insight.doctor.gpu import GpuReading
from sparkwright.insight.doctor.signs import signs
from sparkwright.insight.status.status import Reading, parse_status, status_script
from sparkwright.insight.status.table import as_json, table
from sparkwright.insight.status.warnings import warnings
from sparkwright.plan.causes.thresholds import FAULT_BUSY, FAULT_MHZ, FAULT_WATTS
from sparkwright.run.options import RunOptions, options_of
from tests.makers.doctor import output as checkup_output
from tests.makers.shell import shell
from tests.makers.status import COUNTERS, RELEASE, SERVES, SOUND, UNITS, output, row


def test_a_reading() -> None:
    found = parse_status(output())
    assert found.unit is not None
    assert (found.release, found.recipe, found.unit.restarts) == (RELEASE, "lab-tiny", 2)
    assert (found.others, found.switches) == (("lab-tiny-99999999",), ())
    assert found.since == 1795240000
    assert found.load == EngineLoad(
        tokens=40.0, prompt_tokens=200.0, running=4, waiting=2, kv_usage=0.25, acceptance=0.63
    )
    assert found.gpu == GpuReading(2405.0, 61.42, 67.0, 96.0, None, None)
    assert (found.memory_total, found.memory_available) == (127601452 * 1024, 54525952 * 1024)
    assert (found.disk_free, found.door, found.held) == (10**12, "active", 0)
    assert parse_status(output(held="")).held is None


def test_what_is_not_there_is_not_known() -> None:
    worker = parse_status(output(first="", second=""))
    assert worker.load is None
    # An engine that comes up, or goes down, between the two looks.
    assert parse_status(output(first="1795247431.25")).load is None
    assert parse_status(output(second="1795247432.50")).load is None
    plain = COUNTERS[: COUNTERS.index("vllm:spec")].strip()
    same = plain.format(time="1.0", read="0.0", written="0.0")
    found = parse_status(output(first=same, second=same.replace("1.0", "2.0", 1))).load
    assert found is not None
    assert found.acceptance is None
    # An engine that was started between the two looks counts from nothing.
    again = COUNTERS.format(time="1795247432.25", read="1.0", written="3.0")
    fresh = parse_status(output(second=again)).load
    assert fresh is not None
    assert (fresh.tokens, fresh.prompt_tokens) == (0.0, 0.0)
    # One that is up no longer: systemd still says when it was.
    failed = parse_status(output(units=UNITS.replace("=active", "=failed")))
    assert failed.since is None
    assert parse_status(output(since="", gpu="", release="")).gpu is None
    said = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    assert parse_status(output(gpu=said)).gpu is None
    cards = "210, 9.1, 30, 0, 1, 32607\n2400, 300.5, 60, 99, 90000, 97887"
    card = parse_status(output(gpu=cards)).gpu
    assert card == GpuReading(2400.0, 300.5, 60.0, 99.0, 90000 * 1024**2, 97887 * 1024**2)


def test_a_vllm_that_lacks_a_metric_answers_all_the_same() -> None:
    known = [line for line in COUNTERS.splitlines() if not re.search("running|kv_cache", line)]
    first = "\n".join(known).format(time="1.0", read="100.0", written="1000.0")
    second = "\n".join(known).format(time="2.0", read="100.0", written="1050.0")
    found = parse_status(output(units=SOUND, first=first, second=second))
    assert found.load == EngineLoad(
        tokens=50.0, prompt_tokens=0.0, running=None, waiting=2, kv_usage=None, acceptance=0.63
    )
    assert list(warnings(row(found))) == []
    _, line = table([row(found)])
    assert line.split()[7:11] == ["50", "-", "-", "63"]
    (told,) = json.loads(as_json([row(found)], 3.0))["sparks"]
    assert (told["requests_running"], told["kv_cache_usage"]) == (None, None)


def test_an_incomplete_reading_is_an_error() -> None:
    with pytest.raises(ValueError, match="incomplete"):
        parse_status(output()[:8])


def test_the_script_reads_a_machine_without_anything(tmp_path: Path) -> None:
    script = status_script(str(tmp_path / "nothing" / "here"))
    done = shell(script)
    found = parse_status(done.stdout.splitlines())
    assert (found.release, found.load, found.since) == (None, None, None)
    assert found.memory_total > found.memory_available > 0
    assert found.disk_free > 0


def test_the_table_has_a_line_for_each_spark() -> None:
    serves = parse_status(output(since=str(int(time.mktime((2026, 11, 21, 9, 5, 0, 0, 0, -1))))))
    rows = [
        row(serves),
        row(parse_status(output(first="", second="")), spark="spark-b", rank=1),
        row(None, spark="c"),
        row(
            parse_status(output(current="", units="", release="", since="", first="", second="")),
            spark="d",
            replica=None,
            recipe=None,
            rank=None,
        ),
    ]
    head, a, b, c, d = table(rows)
    assert " ".join(head.split()) == (
        "spark replica recipe release up since tok/s requests KV drafts GiB MHz W °C restarts"
    )
    assert " ".join(a.split()) == (
        "spark-a chat lab-tiny 0a1b2c3d 21 Nov 09:05 40 4+2 25 % 63 % 70/122 2405 61 67 2"
    )
    assert b.split()[7:11] == ["-", "-", "-", "-"]
    assert c.split() == ["c", "chat", "lab-tiny", "-", "no", "answer", *"-" * 9]
    assert d.split()[:5] == ["d", "-", "-", "-", "idle"]
    # Numbers line up on their right.
    assert {line.index(" 2405") for line in (a, b, d)} == {head.index("  MHz")}
    other = row(serves, recipe="lab-built")
    assert RELEASE in table([other])[1]


BUSY = replace(SERVES.load, kv_usage=0.99) if SERVES.load else None


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_narrow_terminal_gets_fewer_columns(width: int) -> None:
    rows = [row(parse_status(output())), row(None)]
    head, *lines = table(rows, width)
    assert max(map(len, (head, *lines))) <= width
    assert {"spark", "release", "tok/s"} <= set(head.split())
    assert len(head.split()) < len(table(rows)[0].split())


@pytest.mark.parametrize(
    ("reading", "changes", "said"),
    [
        (None, {}, "no answer"),
        (replace(SERVES, release=None, unit=None), {}, "lab-tiny was not set up yet"),
        (SERVES, {"recipe": "lab-built"}, "lab-tiny is set up; the inventory asks for lab-built"),
        (
            SERVES,
            {"recipe": None, "rank": None},
            f"{RELEASE} runs, but the inventory assigns no replica to this Spark",
        ),
        (replace(SERVES, others=("x-1",)), {}, "vllm@x-1 runs as well"),
        (replace(SERVES, others=("x-1",), switches=("x-1",)), {}, "a switch to x-1 is under way"),
        (replace(SERVES, unit=None), {}, "the engine is not there"),
        (
            parse_status(
                output(
                    units=UNITS.split("\n\n")[0]
                    .replace("=active", "=failed")
                    .replace("=serving", "=it went down")
                    .replace("=2", "=0")
                )
            ),
            {},
            "is failed (it went down)",
        ),
        (replace(SERVES, load=None), {}, "does not answer /metrics"),
        (parse_status(output(units=UNITS.split("\n\n")[0])), {}, "started again 2 times"),
        (replace(SERVES, door="failed"), {}, "the door is failed"),
        (replace(SERVES, held=12), {}, "the door holds 12 requests"),
        (replace(SERVES, load=BUSY), {}, "the KV cache is full, and 2 requests wait"),
        (
            replace(SERVES, gpu=GpuReading(611, 30, 50, 97, None, None)),
            {},
            "held back: 611 MHz and 30 W",
        ),
        (replace(SERVES, memory_available=4 * GIB), {}, "4.0 GiB of memory are left"),
        (replace(SERVES, disk_free=GIB), {}, "1.0 GiB are free"),
    ],
)
def test_what_somebody_should_look_at(
    reading: Reading | None, changes: dict[str, Any], said: str
) -> None:
    (warning,) = warnings(row(reading, **changes))
    assert said in warning


def test_nothing_is_said_of_a_sound_spark() -> None:
    assert list(warnings(row(SERVES))) == []
    # A worker has neither an API nor a door.
    worker = replace(SERVES, load=None, door="inactive")
    assert list(warnings(row(worker, rank=1))) == []
    slow_and_idle = replace(SERVES, gpu=GpuReading(208, 4, 45, 0, None, None))
    assert list(warnings(row(slow_and_idle))) == []


@pytest.mark.parametrize(
    ("values", "slow"),
    [
        ((858, 20, 96), True),
        ((FAULT_MHZ, FAULT_WATTS, FAULT_BUSY), True),
        ((FAULT_MHZ + 1, FAULT_WATTS, FAULT_BUSY), False),
        ((FAULT_MHZ, FAULT_WATTS + 1, FAULT_BUSY), False),
        ((FAULT_MHZ, FAULT_WATTS, FAULT_BUSY - 1), False),
    ],
)
def test_a_gpu_is_held_back_where_the_doctor_says_so(
    values: tuple[int, int, int], slow: bool
) -> None:
    gpu = GpuReading(*values[:2], 50, values[2], None, None)
    told = any("held back" in each for each in warnings(row(replace(SERVES, gpu=gpu))))
    evidence = signs(replace(parse_checkup(checkup_output(), 0), gpu=gpu))["power-fault"]
    assert (told, evidence is not None) == (slow, slow)


def test_json_for_machines() -> None:
    told = json.loads(as_json([row(SERVES), row(None, spark="b")], 1795247432.5))
    a, b = told["sparks"]
    assert told["time"] == 1795247432.5
    assert (a["release"], a["up_since"], a["tokens_per_second"]) == (RELEASE, 1795240000, 40.0)
    assert (a["state"], a["gpu_power_w"], a["warnings"]) == ("active", 61.42, [])
    assert a["memory_used_bytes"] == (127601452 - 54525952) * 1024
    assert (b["answers"], len(b["warnings"])) == (False, 1)


@pytest.mark.parametrize("value", ["soon", 0, 3601, True, 1.5, [5]])
def test_a_refresh_is_some_seconds(value: object) -> None:
    with pytest.raises(PlanError, match=r"--data watch: found .*; expected seconds from 1 to 3600"):
        options_of({"watch": value})
    assert (RunOptions().watch, options_of({"watch": 5}).watch) == (None, 5)


@pytest.mark.parametrize("value", ["", "folder/", 5, True])
def test_json_goes_to_a_file_or_to_standard_output(value: object) -> None:
    with pytest.raises(PlanError, match=r"--data json: found .*; expected the path"):
        options_of({"json": value})
    told = [options_of({"json": each}).json_target for each in (None, "-", "s.json")]
    assert told == [None, "-", "s.json"]


UNIT = Path(__file__).parents[4] / "files/host/machine/gpu-clock.service"


def test_what_is_stopped_is_reset_and_removed_with_the_rest() -> None:
    assert "ExecStop=/usr/bin/env nvidia-smi --reset-gpu-clocks" in UNIT.read_text()
    assert "gpu-clock.service" in unit_names()


def test_status_shows_it() -> None:
    reading = parse_status(output(**{"clock limit": "2200"}))
    assert reading.clock_limit == 2200
    assert "2405/2200" in table([row(reading)])[1]
    assert '"gpu_clock_max_mhz": 2200' in as_json([row(reading)], 0)
    assert SERVES.clock_limit is None
    assert "2405/" not in table([row(replace(reading, clock_limit=None))])[1]
