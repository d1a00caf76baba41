"""Causes: each shows by its own evidence, and not without."""

from collections.abc import Callable
from typing import Any

import pytest

from sparkwright.insight.benchmark.causes import causes
from sparkwright.insight.benchmark.verdict import Figures, overall, verdicts
from sparkwright.plan.causes.log_causes import Diagnosis
from sparkwright.plan.causes.thresholds import FAULT_MHZ, FAULT_WATTS
from tests.makers.benchmark import EXPECTED, answer, recorded

Result = dict[str, Any]
Change = Callable[[Result], None]


def _found(result: Result, expected: Figures = EXPECTED, hardware: str = "gb10") -> list[Diagnosis]:
    read = answer(result)
    return causes(read, verdicts(read.figures, expected), hardware)


def _names(result: Result, expected: Figures = EXPECTED, hardware: str = "gb10") -> list[str]:
    return [each.name for each in _found(result, expected, hardware)]


def _slower(factor: float) -> Change:
    def change(result: Result) -> None:
        for workload in _measured(result):
            workload["figures"]["tok_s"] /= factor

    return change


def _measured(result: Result) -> list[Result]:
    return [each for each in result["workloads"] if "figures" in each]


def _gpu(*reading: float | None) -> Change:
    def change(result: Result) -> None:
        for workload in _measured(result):
            workload["gpu"] = list(reading)

    return change


def _hot(result: Result) -> None:
    for place, workload in enumerate(_measured(result)):
        workload["gpu"] = [2400 - 60 * place, 60, 60 + 2 * place]


def _others(result: Result) -> None:
    result["others"] = 3


def _errors(result: Result) -> None:
    _measured(result)[0]["errors"] = ["HTTP 503"]


def _rejected(result: Result) -> None:
    _slower(1.6)(result)
    for workload in _measured(result):
        workload["figures"]["acceptance"] = 0.01


def _preempted(result: Result) -> None:
    _slower(1.6)(result)
    _measured(result)[0]["preemptions"] = 4


# The SM121 guide: 36.6 in the place of 52.9 tok/s, and a clock as it should be.
_quarter_less = _slower(52.9 / 36.6)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lambda result: None, []),
        (_slower(3.65), ["stock-kernels"]),
        (_hot, ["thermal-slowdown"]),
        (_others, ["others-at-work"]),
        (_errors, ["request-errors"]),
        (_rejected, ["drafts-rejected"]),
        (_preempted, ["kv-cache-full"]),
        (_quarter_less, ["power-fault-suspected"]),
        (_gpu(208, 4, 40), ["power-fault"]),
        (_gpu(FAULT_MHZ, FAULT_WATTS, 60), ["power-fault"]),
        (_gpu(FAULT_MHZ, None, 60), ["power-fault"]),
        (_gpu(FAULT_MHZ + 1, FAULT_WATTS, 60), []),
        (_gpu(FAULT_MHZ, FAULT_WATTS + 1, 60), []),
        (_gpu(None, None, None), []),
    ],
)
def test_a_cause_shows_by_its_evidence(change: Change, names: list[str]) -> None:
    result = recorded("within")
    change(result)
    assert _names(result) == names


def test_the_milder_power_fault_is_a_suspicion_where_nothing_else_explains_it() -> None:
    result = recorded("within")
    _quarter_less(result)
    (found,) = _found(result)
    assert "of the expected tok/s at 24" in found.evidence
    assert "unplug" in found.remedy
    for hardware in ("lab", "rtx-5090"):
        assert _names(result, hardware=hardware) == []
    _others(result)
    assert _names(result) == ["others-at-work"]


def test_slow_for_no_known_reason() -> None:
    result = recorded("within")
    _slower(1.25)(result)
    assert overall(verdicts(answer(result).figures, EXPECTED)) == "below"
    assert _names(result) == []


def test_the_power_fault_is_found_by_clock_and_power_and_without_expected_figures() -> None:
    faulty = recorded("power-fault")
    (found,) = _found(faulty)
    assert found.name == "power-fault"
    assert "MHz and 29 W under load" in found.evidence
    assert "unplug" in found.remedy
    assert _names(faulty, {}) == ["power-fault"]
    for hardware in ("lab", "rtx-5090"):
        assert _names(faulty, hardware=hardware) == []
