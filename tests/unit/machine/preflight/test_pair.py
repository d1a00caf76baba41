"""What must be alike on two Sparks that serve one model."""

import time
from typing import Any

import pytest

from sparkwright.common.hardware import GIB
from sparkwright.machine.preflight.deploy import preflight
from sparkwright.machine.preflight.preflight import differences
from tests.makers.models import changed
from tests.makers.preflight import FIT, IMAGE, NOW, SPARK, WANTED
from tests.unit.driven import Driven, fake_host

OTHER_IMAGE = "sha256:" + "2" * 64


def _kernel(release: str, handover: int = 0) -> dict[str, Any]:
    return {"kernel": changed(FIT.kernel, release=release, handover=handover)}


def test_two_of_a_kind_do_not_differ():
    other = changed(FIT, memory=FIT.memory - GIB, clock=NOW + 5, root_free=GIB, image=IMAGE)
    assert differences("a", FIT, "b", other) == []


@pytest.mark.parametrize(
    ("change", "found", "remedy", "error"),
    [
        (
            {"driver": "580.95.05"},
            "NVIDIA driver 580.126.09 on a, 580.95.05 on b",
            "Update DGX OS on b",
            True,
        ),
        ({"driver": "590.1"}, "NVIDIA driver 580.126.09 on a, 590.1 on b", "DGX OS on a", True),
        ({"memory": 64 * GIB}, "121.7 GiB of memory on a, 64.0 GiB on b", "of one size", True),
        ({"docker": "29.0.0"}, "Docker 28.5.1 on a, 29.0.0 on b", "Update DGX OS on a", True),
        ({"docker": "28.3.3"}, "Docker 28.5.1 on a, 28.3.3 on b", "Update DGX OS on b", False),
        (_kernel("6.14.0-1013-nvidia"), "6.14.0-1013-nvidia on b", "DGX OS on a", False),
        (_kernel("7.0.0-1019-nvidia", 10 * GIB), "7.0.0-1019-nvidia on b", "Boot one", False),
        ({"docker_driver": "overlayfs"}, "overlay2 on a, by overlayfs on b", "daemon.json", True),
        ({"clock": NOW + 40}, "the clock of b is 40 s ahead of that of a", "set-ntp", False),
        ({"clock": NOW - 40}, "the clock of a is 40 s ahead of that of b", "set-ntp", False),
        ({"image": OTHER_IMAGE}, f"{IMAGE} on a, {OTHER_IMAGE} on b", OTHER_IMAGE, True),
    ],
)
def test_each_difference(change, found, remedy, error):
    spark = changed(FIT, image=IMAGE)
    (finding,) = differences("a", spark, "b", changed(spark, **change))
    assert finding.error is error
    assert found in finding.found
    assert remedy in finding.remedy


@pytest.mark.parametrize("change", [{"driver": None}, {"docker": None, "docker_driver": None}])
def test_what_one_lacks_is_said_of_that_one_alone(change):
    assert differences("a", FIT, "b", changed(FIT, **change)) == []
    assert differences("a", changed(FIT, **change), "b", FIT) == []


def test_errors_come_first():
    other = changed(FIT, **_kernel("6.8"), driver="570.1")
    assert [finding.error for finding in differences("a", FIT, "b", other)] == [True, False]


def _spark(name: str, driver: str = "580.126.09") -> Driven:
    return fake_host(
        state={"machine": SPARK | {"driver": driver, "clock": int(time.time())}}, spark=name
    )


@pytest.mark.parametrize(("driver", "fit"), [("580.126.09", True), ("580.95.05", False)])
def test_the_head_names_both_sparks(driver: str, fit: bool):
    head = _spark("spark-a")
    arguments = {"wanted": [changed(WANTED, pair=True)]}
    with _spark("spark-b", driver).current() as worker:
        assert head.predicts_change(preflight, **arguments, worker=worker) is not fit
        result = head.run(preflight, **arguments, worker=worker)
    assert result.did_succeed() is fit
    said = "NVIDIA driver 580.126.09 on spark-a, 580.95.05 on spark-b. Update DGX OS on spark-b"
    assert (said in "".join(head.scripts())) is not fit


def test_the_worker_speaks_for_itself_alone():
    arguments = {"wanted": [changed(WANTED, pair=True)]}
    worker = _spark("spark-b", "580.95.05")
    assert worker.run(preflight, **arguments).did_succeed()
    assert (worker.asked[0], worker.commands) == (["machine"], [])
