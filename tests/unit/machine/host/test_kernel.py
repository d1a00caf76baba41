"""What a kernel and its driver keep of the memory, and what preflight and doctor make of it."""

import pytest

from host.state import machine
from sparkwright.common.hardware import GIB, HARDWARE
from sparkwright.insight.doctor.diagnosis import diagnose
from sparkwright.machine.preflight.preflight import findings
from tests.makers.doctor import HEALTHY
from tests.makers.models import changed
from tests.makers.preflight import MACHINES, NOW, SPARK, WANTED, survey

KERNEL = SPARK["kernel"]


# As of MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#259: enough to break a pair.
@pytest.mark.parametrize(("kib", "hurts"), [(940604, True), (512 * 1024 - 1, False)])
def test_a_small_reserve_counts_for_the_doctor_as_here(kib: int, hurts: bool):
    told = survey(kernel=KERNEL | {"handover": kib << 10})
    found = findings(told, changed(WANTED, pair=True), NOW)
    seen = diagnose(changed(HEALTHY, kernel=changed(HEALTHY.kernel, handover=kib * 1024)))
    assert (len(found), [each.name for each in seen]) == (hurts, ["kernel-kho"] * hurts)


def test_it_is_nothing_to_a_card():
    _, card = MACHINES["5090"]
    keeps = changed(card.kernel, handover=9 * GIB, pools=True)
    wanted = changed(WANTED, hardware=HARDWARE["rtx-5090"])
    assert findings(changed(card, kernel=keeps), wanted, NOW) == []


def test_pools_of_the_driver_are_named():
    told = survey(driver="610.57", kernel=KERNEL | {"pools": True})
    (finding,) = findings(told, WANTED, NOW)
    assert not finding.error
    assert "driver 610.57 keeps memory that was freed" in finding.found
    assert "NVreg_EnableSystemMemoryPools=0" in finding.remedy


# As /proc/meminfo of a Spark with 7.0.0-1019-nvidia shows it: CmaFree, and a CmaTotal of 0.
@pytest.mark.parametrize(
    ("total", "free", "kib"), [(32768, 9783296, 9750528), (0, 0, 0), (65536, 61440, 0)]
)
def test_it_is_what_is_free_beyond_all_areas(
    monkeypatch: pytest.MonkeyPatch, total: int, free: int, kib: int
):
    known = {"CmaTotal": total << 10, "CmaFree": free << 10}
    monkeypatch.setattr(machine, "meminfo", lambda: known)
    assert machine.kernel()["handover"] == kib << 10
    known.clear()
    assert machine.kernel()["handover"] == 0


@pytest.mark.parametrize(("line", "pools"), [("", False), ("0", False), ("529", True)])
def test_the_pools_of_a_driver_that_has_some(
    monkeypatch: pytest.MonkeyPatch, line: str, pools: bool
):
    said = f"Other: 1\nEnableSystemMemoryPools: {line}\n" if line else None
    monkeypatch.setattr(machine, "text", lambda _: said)
    assert machine.kernel()["pools"] is pools
