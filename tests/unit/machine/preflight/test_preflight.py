"""What the preflight says of a Spark, of two that serve one model, and of what serves."""

import time
from types import SimpleNamespace
from typing import Any

import pytest

from sparkwright.common.hardware import GIB, HARDWARE
from sparkwright.declared.fleet.settings import Settings
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.machine.host.survey import Listener, Survey
from sparkwright.machine.preflight import deploy
from sparkwright.machine.preflight.deploy import preflight
from sparkwright.machine.preflight.preflight import differences, findings
from sparkwright.machine.preflight.requirements import summary
from sparkwright.plan.memory.known_checkpoints import nominal_load
from sparkwright.plan.memory.plan import plan_memory
from sparkwright.plan.memory.turns import tenant
from tests.makers.models import changed
from tests.makers.preflight import FIT, IMAGE, LAPTOP, MACHINES, NOW, SPARK, WANTED, survey
from tests.unit.driven import Driven, fake_host


def test_a_spark_from_the_factory_is_fit():
    assert not [*findings(FIT, WANTED, NOW)]


@pytest.mark.parametrize(
    ("change", "found", "error"),
    [
        ({"arch": "x86_64"}, "the processor is x86_64", True),
        ({"memory": 64 * GIB}, "64.0 GiB of memory", True),
        ({"gpu": None, "driver": None}, "nvidia-smi shows no GPU", True),
        ({"gpu": "NVIDIA H200"}, "the GPU is NVIDIA H200, expected NVIDIA GB10", True),
        ({"driver": "570.86.15"}, "NVIDIA driver 570.86.15, at least 580", True),
        ({"docker": None}, "no Docker daemon answers", True),
        ({"docker": "24.0.7"}, "Docker 24.0.7, at least 25", True),
        ({"systemd": "offline"}, "systemd is offline", True),
        ({"systemd": "degraded", "failed_units": ("a.service",)}, "failed units: a.service", False),
        ({"clock": NOW - 3600}, "the clock is 1 h 0 min behind", True),
        ({"os": "debian 13", "os_name": "Debian 13"}, "the system is Debian 13", False),
        (
            {"listeners": (Listener(False, 8000, 7, "python3"),)},
            "port 8000 is taken by python3",
            True,
        ),
    ],
)
def test_each_finding(change, found, error):
    (finding,) = findings(changed(FIT, **change), WANTED, NOW)
    assert finding.error is error
    assert found in finding.found
    assert finding.remedy


class TestClasses:
    @pytest.mark.parametrize(("right", "survey"), MACHINES.values(), ids=MACHINES)
    @pytest.mark.parametrize("declared", HARDWARE)
    def test_a_machine_is_of_its_class_or_told_which(
        self, right: str, survey: Survey, declared: str
    ):
        found = [*findings(survey, changed(WANTED, hardware=HARDWARE[declared]), NOW)]
        if declared == right or (declared == "lab" and right == "gb10-64gb"):
            assert found == []
        else:
            assert found
            assert all(f"Set `hardware: {right}`" in each.remedy for each in found)

    def test_more_memory_than_the_class_has_is_no_harm(self):
        assert not [*findings(FIT, changed(WANTED, hardware=HARDWARE["gb10-64gb"]), NOW)]

    def test_a_laptop_is_of_no_class(self):
        wanted = changed(WANTED, hardware=HARDWARE["rtx-5090"])
        (finding,) = findings(LAPTOP, wanted, NOW)
        assert "23.9 GiB of memory of the GPU's own, rtx-5090 has at least 31" in finding.found
        assert "No hardware class matches it" in finding.remedy


class TestDisk:
    def test_weights_and_image_share_a_file_system(self):
        # 22 GiB of weights, 9 GiB of image times 3.44, 20 GiB to spare: 73 GiB.
        enough = changed(FIT, root_free=74 * GIB, docker_free=74 * GIB)
        assert not [*findings(enough, WANTED, NOW)]
        short = changed(FIT, root_free=72 * GIB, docker_free=72 * GIB)
        (finding,) = findings(short, WANTED, NOW)
        assert "72.0 GiB free on /dev/nvme0n1p2" in finding.found

    def test_what_is_there_is_not_needed_again(self):
        survey = changed(FIT, weights=22 * GIB, image=IMAGE, root_free=GIB, docker_free=GIB)
        assert not [*findings(survey, WANTED, NOW)]

    @pytest.mark.parametrize(
        ("own", "worker", "need"),
        [
            # 22 GiB of weights, 31 of image, and 22 as which it moves to the worker.
            pytest.param(None, FIT, 97, id="head of two clean Sparks"),
            pytest.param(IMAGE, FIT, 66, id="head, clean worker"),
            pytest.param(None, changed(FIT, image=IMAGE), 53, id="head, the worker has the image"),
            pytest.param(IMAGE, changed(FIT, image=IMAGE), 22, id="head, both have it"),
            pytest.param(None, None, 97, id="clean worker"),
            pytest.param(IMAGE, None, 22, id="worker, it has the image"),
        ],
    )
    def test_an_image_that_moves_is_on_both(self, own, worker, need):
        wanted, need = changed(WANTED, group=True), (need + 20) * GIB
        fits = changed(FIT, image=own, root_free=need, docker_free=need)
        workers = [worker] if worker else []
        assert not [*findings(fits, wanted, NOW, workers)]
        short = changed(fits, root_free=need - GIB, docker_free=need - GIB)
        (finding,) = findings(short, wanted, NOW, workers)
        assert "GiB free on /dev/nvme0n1p2" in finding.found


@pytest.mark.parametrize(
    ("trusted", "is_head", "warned"),
    [([], True, True), (["kv-cache-dtype"], True, False), ([], False, False)],
)
def test_a_word_of_the_owner_ends_a_doubt_about_a_recipe(
    trusted: list[str], is_head: bool, warned: bool, monkeypatch: pytest.MonkeyPatch
):
    fleet = SimpleNamespace(replicas={"chat": SimpleNamespace(trusts=trusted)})
    monkeypatch.setattr(deploy, "fleet_of", {"sparks.yaml": fleet}.__getitem__)
    release = SimpleNamespace(recipe=load_recipe("qwen3.5-35b-fp8-community"))
    own = SimpleNamespace(release=release, replica="chat", is_head=is_head, fleet="sparks.yaml")
    found = [*findings(FIT, changed(WANTED, doubts=deploy.doubts_of(own)), NOW)]
    assert [each.error for each in found] == [False] * warned
    assert all("kv-cache-dtype" in each.remedy for each in found)


def test_a_second_replica_needs_disk_and_ports_as_well():
    wanted = changed(WANTED, weights=30 * GIB, ports=(8001, 19001))
    tight = changed(FIT, root_free=52 * GIB, weights=0, image=IMAGE, docker_device="other")
    assert not [*findings(tight, WANTED, NOW)]
    (finding,) = findings(tight, WANTED, NOW, others=[(tight, wanted)])
    assert "expected 52.0 for weights and image and 20.0 to spare" in finding.found
    taken = changed(FIT, listeners=(Listener(False, 8001, 7, "nginx"),))
    (finding,) = findings(FIT, WANTED, NOW, others=[(taken, WANTED)])
    assert "port 8001 is taken by nginx" in finding.found


def test_the_sum_of_two_engines_has_to_fit():
    """Each is told what it may take, and which replica is meant."""
    spark = fake_host(state={"machine": SPARK | {"clock": int(time.time())}}, spark="spark-a")
    recipe = load_recipe("qwen3.6-35b-nvidia").for_sparks(1)
    args = recipe.args | {"max-num-seqs": 16, "max-model-len": 8192}
    needs = []
    for name, part in (("chat", 0.85), ("embed", 0.4)):
        sized = recipe.model_copy(update={"args": args | {"gpu-memory-utilization": part}})
        needs.append(changed(WANTED, load=nominal_load(sized, 1), replica=name))
    assert spark.run(preflight, wanted=needs).did_error()
    said = spark.scripts()[-1]
    assert "error: chat: gpu-memory-utilization 0.85 leaves" in said
    assert "the other engine, which takes 50.7 GiB" in said
    assert "error: embed: gpu-memory-utilization 0.4 leaves" in said


def test_models_in_turn_need_room_beside_what_stays_alone(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan shows who may run together, and refuses who never fits."""
    monkeypatch.setattr(deploy, "planning", lambda: True)
    recipe = load_recipe("qwen3.6-35b-nvidia").for_sparks(1)
    args = recipe.args | {"max-num-seqs": 16, "max-model-len": 8192}
    needs, turns = [], []
    for name, part in (("chat", 0.8), ("coder", 0.8), ("embed", 0.4)):
        sized = recipe.model_copy(update={"args": args | {"gpu-memory-utilization": part}})
        load = nominal_load(sized, 1)
        needs.append(changed(WANTED, load=load, replica=name, yields=name != "embed"))
        turns.append(tenant(name, load, WANTED.hardware, stays=name == "embed"))

    found = {"machine": SPARK | {"clock": int(time.time())}}
    spark = fake_host(state=found, spark="spark-a")
    with caplog.at_level("INFO"):
        assert spark.run(preflight, wanted=needs[:2], turns=turns[:2]).did_succeed()
    assert "may run together: chat | coder" in caplog.text
    monkeypatch.undo()
    assert spark.run(preflight, wanted=needs, turns=turns).did_error()
    said = spark.scripts()[-1]
    for name in ("chat", "coder"):
        assert f"error: {name} beside embed: gpu-memory-utilization 0.8 leaves" in said
    # None is told twice.
    assert "never fits" not in said


RECIPE = load_recipe("qwen3.6-35b-nvidia")
NEW: Any = SimpleNamespace(id="new-1", recipe=RECIPE)


@pytest.mark.parametrize(
    ("serves", "free", "hold", "said"),
    [
        (None, 100, 480, "release new-1; nothing serves now"),
        ("new-1", 20, 480, "release new-1; it is the one that serves now"),
        ("old-1", 110, 480, "release new-1; old-1 serves until this one does"),
        ("old-1", 20, 480, "old-1 serves now and ends first: the door holds requests for up to 48"),
        ("old-1", 20, 0, "old-1 serves now and ends first: requests fail meanwhile"),
    ],
)
def test_what_serves_and_whether_the_switch_has_a_gap(
    serves: str | None, free: int, hold: int, said: str
) -> None:
    survey = changed(FIT, serves=serves, available=free * GIB)
    plan = plan_memory(nominal_load(RECIPE.for_sparks(1), 1), HARDWARE["gb10"])
    wanted = changed(WANTED, settings=Settings(hold_seconds=hold))
    assert said in "\n".join(summary(NEW, survey, wanted, plan))
    # The engines of a pair have fixed ports: never two.
    pair = plan_memory(nominal_load(RECIPE.for_sparks(2), 2), HARDWARE["gb10"])
    text = "\n".join(summary(NEW, survey, wanted, pair))
    assert ("until this one does" in text) is False


KERNEL = SPARK["kernel"]


def test_it_is_nothing_to_a_card():
    _, card = MACHINES["5090"]
    keeps = changed(card.kernel, handover=9 * GIB, pools=True)
    wanted = changed(WANTED, hardware=HARDWARE["rtx-5090"])
    assert not [*findings(changed(card, kernel=keeps), wanted, NOW)]


def test_pools_of_the_driver_are_named():
    told = survey(driver="610.57", kernel=KERNEL | {"pools": True})
    (finding,) = findings(told, WANTED, NOW)
    assert not finding.error
    assert "driver 610.57 keeps memory that was freed" in finding.found
    assert "NVreg_EnableSystemMemoryPools=0" in finding.remedy


def test_a_small_reserve_for_handover_counts_as_none():
    assert survey(kernel=KERNEL | {"handover": 32 << 20}).kernel.handover == 0


OTHER_IMAGE = "sha256:" + "2" * 64


def _kernel(release: str, handover: int = 0) -> dict[str, Any]:
    return {"kernel": changed(FIT.kernel, release=release, handover=handover)}


def test_two_of_a_kind_do_not_differ():
    other = changed(FIT, memory=FIT.memory - GIB, clock=NOW + 5, root_free=GIB, image=IMAGE)
    assert not [*differences("a", FIT, "b", other)]


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
    assert not [*differences("a", FIT, "b", changed(FIT, **change))]
    assert not [*differences("a", changed(FIT, **change), "b", FIT)]


def _spark(name: str, driver: str = "580.126.09") -> Driven:
    return fake_host(
        state={"machine": SPARK | {"driver": driver, "clock": int(time.time())}}, spark=name
    )


@pytest.mark.parametrize(("driver", "fit"), [("580.126.09", True), ("580.95.05", False)])
def test_the_head_names_the_one_that_differs(driver: str, fit: bool):
    head = _spark("spark-a")
    arguments = {"wanted": [changed(WANTED, group=True)]}
    with _spark("spark-c").current() as alike, _spark("spark-b", driver).current() as worker:
        workers = [alike, worker]
        assert head.predicts_change(preflight, **arguments, workers=workers) is not fit
        result = head.run(preflight, **arguments, workers=workers)
    assert result.did_succeed() is fit
    said = "NVIDIA driver 580.126.09 on spark-a, 580.95.05 on spark-b. Update DGX OS on spark-b"
    assert (said in "".join(head.scripts())) is not fit


def test_the_worker_speaks_for_itself_alone():
    arguments = {"wanted": [changed(WANTED, group=True)]}
    worker = _spark("spark-b", "580.95.05")
    assert worker.run(preflight, **arguments).did_succeed()
    assert (worker.asked[0], worker.commands) == (["machine"], [])
