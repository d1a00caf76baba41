"""Every known cause, on the log or the reading that shows it."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from sparkwright.causes.log_causes import LOG_CAUSES, from_log, hint
from sparkwright.doctor.checkup import Checkup
from sparkwright.doctor.diagnosis import diagnose
from sparkwright.doctor.gpu import GpuReading
from sparkwright.doctor.host_causes import HOST_CAUSES, LOG_SIGNS, ROOT_CAUSES
from sparkwright.doctor.report import report
from sparkwright.engine.engine import EngineUnit
from sparkwright.engine.metrics import Finished

LOGS = sorted((Path(__file__).parents[1] / "logs").glob("*.log"))
GIB = 1024**3

UNIT = EngineUnit(
    release="tiny-0a1b2c3d",
    active="active",
    restarts=0,
    enabled=True,
    needs_reload=False,
    starting=False,
    status="serving",
)
HEALTHY = Checkup(
    release="tiny-0a1b2c3d",
    unit=UNIT,
    log=("starting the engine", "serving"),
    skew=0.4,
    kernel="6.17.0-1032-nvidia",
    driver="580.173.02",
    memory=(121 * GIB, 20 * GIB, 25 * GIB),
    cma=(0, 0),
    swapped=0,
    free={"/opt/qwen36": 900 * GIB, "/var/lib/docker": 900 * GIB},
    docker="28.3.3",
    runtimes=("io.containerd.runc.v2", "nvidia", "runc"),
    gpu=GpuReading(2418.0, 62.0, 60.0, 96.0, None, None),
    gpu_inside="GPU 0: NVIDIA GB10 (UUID: GPU-1)",
    downs=0,
    listeners=(),
    finished=Finished(cut=1, ended=20),
)
STOPPED = replace(UNIT, active="failed", status="")
REFUSED = "Free memory on device on startup is less than desired GPU memory utilization (0.8, 97)"
NO_MEMORY = "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x51)"
FAULT = "NVRM: Xid (PCI:000f:01:00): 31, pid=9115, MMU Fault: Fault is of type FAULT_PTE"
READINGS = {
    "gpu-lost-in-container": {"gpu_inside": "Failed to initialize NVML: Unknown Error"},
    "docker-down": {"docker": None, "runtimes": ()},
    "docker-runtime": {"runtimes": ("io.containerd.runc.v2", "runc")},
    "port-taken": {"unit": STOPPED, "listeners": ("python3",)},
    # MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#259 and NVIDIA/NV-Kernels#591.
    "kernel-kho": {"kernel": "7.0.0-1019-nvidia", "cma": (0, int(9.7 * GIB))},
    "driver-memory-pools": {"driver": "610.57.04", "log": (REFUSED,)},
    "driver-610-64k": {"driver": "610.57.04", "kernel": "7.0.0-1019-nvidia-64k", "log": (FAULT,)},
    "driver-no-memory": {"unit": STOPPED, "log": (NO_MEMORY,)},
    "gpu-spins": {"gpu": GpuReading(2418.0, 17.0, 50.0, 96.0, None, None)},
    "disk-space": {"free": {"/opt/qwen36": 900 * GIB, "/var/lib/docker": GIB}},
    "power-fault": {"gpu": GpuReading(611.0, 14.2, 45.0, 97.0, None, None)},
    "swapping": {"swapped": 200 * 1024**2},
    # vllm-project/vllm#48140 and llamastash/llamastash#80: 2.77 GiB free, 52 available.
    "page-cache": {
        "memory": (121 * GIB, int(2.77 * GIB), 52 * GIB),
        "log": (REFUSED,),
    },
    "hard-downs": {"downs": 1},
    "clock": {"skew": -7200.0},
    "content-null": {"finished": Finished(cut=12, ended=3)},
    "restarts": {"unit": replace(UNIT, restarts=4)},
}


def lines(log: Path) -> list[str]:
    """Return a log without its first line, which says where it is from."""
    first, *rest = log.read_text().splitlines()
    assert first.startswith("# from: ")
    return rest


def entry(log: Path) -> str:
    """Return the entry that a log is of: a second one of it is called NAME.WHAT.log."""
    return log.name.split(".")[0]


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_a_log_shows_its_cause_first(log):
    found = from_log(lines(log))
    if entry(log) == "healthy":
        assert found == []
    else:
        assert found[0].name == entry(log)
        assert found[0].evidence in "\n".join(lines(log))


@pytest.mark.parametrize("cause", LOG_CAUSES, ids=lambda cause: cause.name)
def test_every_cause_has_a_log(cause):
    assert cause.name in map(entry, LOGS)


def test_evidence_is_the_beginning_of_its_line():
    line = "torch.OutOfMemoryError: " + 1000 * "x"
    (found,) = from_log(["all is well", f"  {line}"])
    assert found.evidence == line[:300]


def test_every_log_has_a_cause():
    names = {cause.name for cause in LOG_CAUSES}
    assert set(map(entry, LOGS)) == names | {"healthy"}


@pytest.mark.parametrize("name", READINGS)
def test_a_reading_shows_its_cause_first(name):
    assert diagnose(replace(HEALTHY, **READINGS[name]))[0].name == name


def test_every_cause_of_the_host_has_a_reading():
    assert set(READINGS) == {*LOG_SIGNS} | {each.name for each in (*ROOT_CAUSES, *HOST_CAUSES)}


@pytest.mark.parametrize("name", [each.name for each in HOST_CAUSES])
def test_a_reading_shows_nothing_else(name):
    found = diagnose(replace(HEALTHY, **READINGS[name]))
    assert [each.name for each in found] == [name]


def test_names_are_unique_and_sentences_end_without_a_stop():
    every = (*LOG_CAUSES, *ROOT_CAUSES, *HOST_CAUSES)
    assert len({cause.name for cause in every}) == len(every)
    assert not [each.name for each in every if f"{each.cause}{each.remedy}".endswith(".")]


@pytest.mark.parametrize(
    "changes",
    [
        {"gpu": GpuReading(208.0, 3.6, 40.0, 0.0, None, None)},  # at rest a GPU is slow, too
        {"gpu": None, "finished": None, "gpu_inside": None},
        {"finished": Finished(cut=0, ended=0)},
        {"memory": (121 * GIB, 2 * GIB, 30 * GIB)},  # while it serves, files may have the rest
        {"log": (NO_MEMORY,)},  # sound starts have it, too: vllm-project/vllm#56824
        {"cma": (32 * 1024**2, 32 * 1024**2)},
        {"driver": "610.57.04", "kernel": "7.0.0-1019-nvidia-64k"},
        {"driver": None},
        {
            "unit": STOPPED,
            "gpu": GpuReading(2418.0, 17.0, 50.0, 96.0, None, None),
        },  # another's work
    ],
)
def test_a_sound_host_shows_nothing(changes):
    assert diagnose(replace(HEALTHY, **changes)) == []


def test_what_explains_a_refusal_comes_before_it():
    kernel = replace(HEALTHY, unit=STOPPED, log=(REFUSED,), **READINGS["kernel-kho"])
    assert [each.name for each in diagnose(kernel)] == ["kernel-kho", "free-memory-at-start"]


def test_no_update_is_advised_where_one_is_the_cause():
    remedies = {each.name: each.remedy for each in (*LOG_CAUSES, *ROOT_CAUSES)}
    for name in ("kernel-kho", "driver-memory-pools", "driver-610-64k", "driver-mismatch"):
        assert "update DGX OS" not in remedies[name].lower()
    assert "kho=off" in remedies["driver-too-old"]


def test_no_remedy_takes_the_image_of_a_way_back():
    """Docker prunes what has neither tag nor container: images that were pulled by digest."""
    remedies = {each.name: each.remedy for each in (*LOG_CAUSES, *ROOT_CAUSES, *HOST_CAUSES)}
    for name in ("disk-full", "disk-space"):
        assert "sparkwright clean" in remedies[name].partition("docker builder prune")[0]
    assert not [each for each in remedies.values() if re.search(r"prune (-a|--all)", each)]


def test_the_hint_of_a_failed_start_is_cause_and_remedy():
    text = hint(["noise", "torch.OutOfMemoryError: CUDA out of memory."])
    assert text is not None
    assert text.startswith("The GPU ran out of memory. Lower the recipe's gpu-memory-utilization")
    assert hint(["all is well"]) is None


def said(checkup: Checkup, recipe: str | None = "tiny") -> str:
    return "\n".join(line for line, _ in report(checkup, diagnose(checkup), recipe))


def test_no_trouble_is_said_with_what_was_looked_at():
    text = said(HEALTHY)
    assert "2 lines of its journal" in text
    assert "no trouble found: vllm@tiny-0a1b2c3d is active (serving)" in text


def test_a_start_under_way_says_how_far_it_is():
    unit = replace(UNIT, active="activating", starting=True)
    text = said(replace(HEALTHY, unit=unit, log=("Starting to load model x",)))
    assert "no trouble found: vllm@tiny-0a1b2c3d is activating (loading weights)" in text


def test_an_idle_spark_says_so():
    bare = replace(HEALTHY, release=None, unit=None, log=())
    assert "this Spark is idle" in said(bare, recipe=None)
    assert "tiny was not set up yet" in said(bare)


def test_an_unknown_failure_shows_its_last_errors():
    log = ("starting", "SomeNewError: nobody knows", "engine ended: its exit status was 1")
    text = said(replace(HEALTHY, unit=STOPPED, log=log))
    assert "shows no known cause" in text
    assert "SomeNewError: nobody knows" in text
    assert "journalctl -u vllm@tiny-0a1b2c3d" in text


def test_at_most_three_causes_are_shown_in_full():
    log = ("No space left on device", "Address already in use", "CUDA out of memory", "fp8e4nv")
    text = said(replace(HEALTHY, log=log))
    assert text.count("cause: ") == 3
    assert "and also: cuda-out-of-memory" in text
