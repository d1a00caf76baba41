"""What a kernel and its driver keep of the memory, and what preflight and doctor make of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from sparkwright.common.hardware import GIB, HARDWARE
from sparkwright.insight.doctor.diagnosis import diagnose
from sparkwright.machine.host.kernel import HANDOVER
from sparkwright.machine.host.survey import parse_survey
from sparkwright.machine.preflight.preflight import findings
from tests.makers.doctor import HEALTHY
from tests.makers.models import changed
from tests.makers.preflight import FIT, MACHINES, NOW, SPARK, WANTED
from tests.makers.shell import shell

# As /proc/meminfo of a Spark with 7.0.0-1019-nvidia shows it: CmaFree, and a CmaTotal of 0.
KEEPS = parse_survey(
    SPARK.replace("6.11.0-1016", "7.0.0-1019").replace("handover 0", "handover 9750528").split("\n")
)


def test_its_reserve_is_an_error_for_a_pair():
    (finding,) = findings(KEEPS, replace(WANTED, pair=True), NOW)
    assert finding.error
    assert "kernel 7.0.0-1019-nvidia keeps 9.3 GiB for kexec handover" in finding.found
    assert "kho=off" in finding.remedy
    assert "6.17 kernel without it. Not both" in finding.remedy
    # It came with an update.
    assert "Update DGX OS" not in finding.remedy


# As of MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#259: enough to break a pair.
@pytest.mark.parametrize(("kib", "hurts"), [(940604, True), (512 * 1024 - 1, False)])
def test_a_small_reserve_counts_for_the_doctor_as_here(kib: int, hurts: bool):
    told = SPARK.replace("handover 0", f"handover {kib}").split("\n")
    found = findings(parse_survey(told), replace(WANTED, pair=True), NOW)
    seen = diagnose(changed(HEALTHY, cma=(0, kib * 1024)))
    assert (len(found), [each.name for each in seen]) == (hurts, ["kernel-kho"] * hurts)


def test_it_is_nothing_to_a_card():
    _, survey = MACHINES["5090"]
    kernel = replace(survey.kernel, handover=9 * GIB, pools=True)
    wanted = replace(WANTED, hardware=HARDWARE["rtx-5090"])
    assert findings(replace(survey, kernel=kernel), wanted, NOW) == []


def test_pools_of_the_driver_are_named():
    survey = parse_survey(
        SPARK.replace("580.126.09", "610.57").replace("pools", "pools 529").split("\n")
    )
    (finding,) = findings(survey, WANTED, NOW)
    assert not finding.error
    assert "driver 610.57 keeps memory that was freed" in finding.found
    assert "NVreg_EnableSystemMemoryPools=0" in finding.remedy


def test_pools_that_are_off_are_fine():
    assert parse_survey(SPARK.replace("pools", "pools 0").split("\n")) == FIT


@pytest.mark.parametrize(
    ("lines", "kib"),
    [
        ("CmaTotal:          32768 kB\nCmaFree:         9783296 kB", "9750528"),
        ("CmaTotal:              0 kB\nCmaFree:               0 kB", "0"),
        ("CmaTotal:          65536 kB\nCmaFree:           61440 kB", "0"),
        ("MemTotal:       127601452 kB", "0"),
    ],
)
def test_it_is_what_is_free_beyond_all_areas(tmp_path: Path, lines: str, kib: str):
    (tmp_path / "meminfo").write_text(f"{lines}\n")
    script = HANDOVER.replace("/proc/meminfo", str(tmp_path / "meminfo"))
    said = shell(script)
    assert said.stdout.strip() == kib
