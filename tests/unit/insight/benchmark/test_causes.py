"""Causes: each shows by its own evidence, and not without."""

from typing import Any

import pytest

from sparkwright.insight.benchmark.verdict import Figures, causes, overall, verdicts
from sparkwright.plan.causes.cause import Diagnosis
from sparkwright.plan.causes.thresholds import FAULT_MHZ, FAULT_WATTS
from tests.makers.benchmark import EXPECTED, answer, recorded

# The SM121 guide: 36.6 in the place of 52.9 tok/s, and a clock as it should be.
QUARTER_LESS = 52.9 / 36.6


def _found(
    result: dict[str, Any], expected: Figures = EXPECTED, hardware: str = "gb10"
) -> list[Diagnosis]:
    read = answer(result)
    return causes(read, verdicts(read.figures, expected), hardware)


def _names(*result: Any, **given: Any) -> list[str]:
    return [each.name for each in _found(*result, **given)]


def _within(
    slower: float = 1.0, gpu: Any = None, first: Any = None, figures: Any = None, **whole: Any
) -> dict[str, Any]:
    """Return a result within what is expected, but for some of it.

    Args:
        gpu: The readings of the GPU, or what returns them for a workload's place.
        first: Of the first workload.
        figures: Of every workload.
    """
    result = recorded("within") | whole
    measured = [each for each in result["workloads"] if "figures" in each]
    for place, workload in enumerate(measured):
        workload["figures"]["tok_s"] /= slower
        workload["figures"] |= figures or {}
        if gpu:
            workload["gpu"] = gpu(place) if callable(gpu) else gpu
    measured[0] |= first or {}
    return result


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, []),
        ({"slower": 3.65}, ["stock-kernels"]),
        ({"gpu": lambda at: [2400 - 60 * at, 60, 60 + 2 * at]}, ["thermal-slowdown"]),
        ({"others": 3}, ["others-at-work"]),
        ({"first": {"errors": ["HTTP 503"]}}, ["request-errors"]),
        ({"slower": 1.6, "figures": {"acceptance": 0.01}}, ["drafts-rejected"]),
        ({"slower": 1.6, "first": {"preemptions": 4}}, ["kv-cache-full"]),
        ({"slower": QUARTER_LESS}, ["power-fault-suspected"]),
        ({"gpu": [208, 4, 40]}, ["power-fault"]),
        ({"gpu": [FAULT_MHZ, FAULT_WATTS, 60]}, ["power-fault"]),
        ({"gpu": [FAULT_MHZ, None, 60]}, ["power-fault"]),
        ({"gpu": [FAULT_MHZ + 1, FAULT_WATTS, 60]}, []),
        ({"gpu": [FAULT_MHZ, FAULT_WATTS + 1, 60]}, []),
        ({"gpu": [None, None, None]}, []),
    ],
)
def test_a_cause_shows_by_its_evidence(changes: dict[str, Any], names: list[str]) -> None:
    assert _names(_within(**changes)) == names


def test_the_milder_power_fault_is_a_suspicion_where_nothing_else_explains_it() -> None:
    result = _within(slower=QUARTER_LESS)
    (found,) = _found(result)
    assert "of the expected tok/s at 24" in found.evidence
    assert "unplug" in found.remedy
    for hardware in ("lab", "rtx-5090"):
        assert _names(result, hardware=hardware) == []
    assert _names(result | {"others": 3}) == ["others-at-work"]


def test_slow_for_no_known_reason() -> None:
    result = _within(slower=1.25)
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
