"""Causes: each shows by its own evidence, and not without."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparkwright.benchmark.causes import causes
from sparkwright.benchmark.figures import figures
from sparkwright.benchmark.verdict import overall, verdicts
from sparkwright.causes.thresholds import FAULT_MHZ, FAULT_WATTS
from sparkwright.doctor.gpu import GpuReading
from sparkwright.recipe.loader import load_recipe

RESULTS = Path(__file__).parents[1] / "results"
# Both are made up; their "source" says so.
SOUND = json.loads((RESULTS / "within.json").read_text())
FAULTY = json.loads((RESULTS / "power-fault.json").read_text())
EXPECTED = load_recipe(SOUND["recipe"]).for_sparks(1).expected

Change = Callable[[dict[str, Any]], None]


def _names(result: dict[str, Any], expected: dict[str, dict[str, float]] = EXPECTED) -> list[str]:
    return [each.name for each in causes(result, verdicts(figures(result), expected))]


def _runs(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [run for workload in result["workloads"] for run in workload["runs"]]


def _slower(result: dict[str, Any], factor: float) -> None:
    for run in _runs(result):
        run["tpot_ms"] = [time * factor for time in run["tpot_ms"]]


def _stock(result: dict[str, Any]) -> None:
    _slower(result, 3.65)


def _hot(result: dict[str, Any]) -> None:
    end = result["gpu"][-1][0]
    for sample in result["gpu"]:
        sample[1:] = [2400 - 900 * sample[0] / end, 60, 60 + 28 * sample[0] / end]


def _others(result: dict[str, Any]) -> None:
    result["before"] = {"running": 2, "waiting": 1}


def _errors(result: dict[str, Any]) -> None:
    _runs(result)[0]["errors"] = ["HTTP 503"]


def _socket(result: dict[str, Any]) -> None:
    result["sparks"], result["log"] = 2, {"network": "NET/Socket"}


def _thinking(result: dict[str, Any]) -> None:
    result["log"] = {"network": None, "thinking": True}


def _rejected(result: dict[str, Any]) -> None:
    _slower(result, 1.6)
    for run in _runs(result):
        run["accepted"] = 0


def _preempted(result: dict[str, Any]) -> None:
    _slower(result, 1.6)
    _runs(result)[0]["preemptions"] = 4


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (_stock, "stock-kernels"),
        (_hot, "thermal-slowdown"),
        (_others, "others-at-work"),
        (_errors, "request-errors"),
        (_socket, "nccl-on-sockets"),
        (_thinking, "thinking"),
        (_rejected, "drafts-rejected"),
        (_preempted, "kv-cache-full"),
    ],
)
def test_a_cause_shows_by_its_evidence(change: Change, name: str) -> None:
    result = copy.deepcopy(SOUND)
    change(result)
    assert _names(result) == [name]


def _quarter_less(result: dict[str, Any]) -> None:
    # The SM121 guide: 36.6 in the place of 52.9 tok/s, and a clock as it should be.
    _slower(result, 52.9 / 36.6)


def test_the_milder_power_fault_is_a_suspicion_where_nothing_else_explains_it() -> None:
    result = copy.deepcopy(SOUND)
    _quarter_less(result)
    (found,) = causes(result, verdicts(figures(result), EXPECTED))
    assert found.name == "power-fault-suspected"
    assert "of the expected tok/s at 24" in found.evidence
    assert "unplug" in found.remedy
    _others(result)
    assert _names(result) == ["others-at-work"]


@pytest.mark.parametrize("hardware", ["lab", "rtx-5090"])
def test_it_is_no_suspicion_of_another_machine(hardware: str) -> None:
    result = copy.deepcopy(SOUND) | {"hardware": hardware}
    _quarter_less(result)
    assert _names(result) == []


def test_slow_for_no_known_reason() -> None:
    result = copy.deepcopy(SOUND)
    _slower(result, 1.25)
    assert overall(verdicts(figures(result), EXPECTED)) == "below"
    assert _names(result) == []


def test_a_sound_spark_has_none() -> None:
    assert overall(verdicts(figures(SOUND), EXPECTED)) == "within"
    assert _names(SOUND) == []


def test_the_power_fault_is_found_by_clock_and_power() -> None:
    found = causes(FAULTY, verdicts(figures(FAULTY), EXPECTED))
    assert [each.name for each in found] == ["power-fault"]
    assert "MHz and 29 W under load" in found[0].evidence
    assert "unplug" in found[0].remedy


def test_the_power_fault_is_told_without_expected_figures() -> None:
    assert _names(FAULTY, {}) == ["power-fault"]


@pytest.mark.parametrize("hardware", ["lab", "rtx-5090"])
def test_only_a_gb10_has_the_power_fault(hardware: str) -> None:
    assert _names(FAULTY | {"hardware": hardware}) == []


def test_an_idle_clock_says_nothing() -> None:
    assert _names(SOUND | {"gpu": [[0.5 + i / 10, 208, 4, 40] for i in range(50)]}) == []


@pytest.mark.parametrize(
    ("clock", "watts", "found"),
    [
        (FAULT_MHZ, FAULT_WATTS, ["power-fault"]),
        (FAULT_MHZ + 1, FAULT_WATTS, []),
        (FAULT_MHZ, FAULT_WATTS + 1, []),
    ],
)
def test_the_power_fault_begins_where_the_doctor_sees_it(
    clock: float, watts: float, found: list[str]
) -> None:
    gpu = [[sample[0], clock, watts, sample[3]] for sample in SOUND["gpu"]]
    assert _names(SOUND | {"gpu": gpu}) == found
    load = GpuReading(clock, watts, 60.0, 100.0, None, None)
    assert bool(load.held_back) == bool(found)


def test_clocks_without_power_are_enough() -> None:
    result = FAULTY | {"gpu": [[*sample[:2], None, sample[3]] for sample in FAULTY["gpu"]]}
    assert _names(result) == ["power-fault"]


def test_one_spark_has_no_peer_to_talk_to_by_tcp() -> None:
    """Nothing leaves it, whatever its log says."""
    result = copy.deepcopy(SOUND)
    _socket(result)
    assert _names(result | {"sparks": 1}) == []


def test_a_prefix_cache_that_is_not_hit() -> None:
    result = copy.deepcopy(SOUND)
    long = next(each for each in result["workloads"] if each["name"] == "long-32k")
    warm = long["runs"][-1]
    warm["ttft_ms"] = [18_000.0] * 3
    expected = {"long-32k": {"ttft_ms": 3870.0}}
    assert _names(result, expected) == []
    for each in result["workloads"]:
        for run in each["runs"]:
            run["cached_tokens"] = 0
    assert _names(result, expected) == ["cold-cache"]
