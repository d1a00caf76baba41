"""Every known cause, on the log or the reading that shows it."""

import re
from pathlib import Path

import pytest

from sparkwright.common.hardware import GIB
from sparkwright.insight.doctor.checkup import Checkup, Finished
from sparkwright.insight.doctor.diagnosis import diagnose, signs
from sparkwright.insight.doctor.report import report
from sparkwright.plan.causes.log_causes import SUBJECTS, causes, from_log, table
from tests.makers.doctor import HEALTHY, KERNEL, UNIT, hard_down
from tests.makers.gpu import gpu
from tests.makers.models import changed
from tests.makers.starts import start

LOGS = sorted((Path(__file__).parents[2] / "logs").glob("*.log"))

STOPPED = changed(UNIT, active="failed", status="")
REFUSED = "Free memory on device on startup is less than desired GPU memory utilization (0.8, 97)"
NO_MEMORY = "NVRM: nvCheckOkFailedNoLog: Check failed: Out of memory [NV_ERR_NO_MEMORY] (0x51)"
FAULT = "NVRM: Xid (PCI:000f:01:00): 31, pid=9115, MMU Fault: Fault is of type FAULT_PTE"
LARGE_PAGES = changed(KERNEL, release="7.0.0-1019-nvidia-64k")
READINGS = {
    "gpu-lost-in-container": {"gpu_inside": "Failed to initialize NVML: Unknown Error"},
    "docker-down": {"docker": None, "runtimes": ()},
    "docker-runtime": {"runtimes": ("io.containerd.runc.v2", "runc")},
    # MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#259 and NVIDIA/NV-Kernels#591.
    "kernel-kho": {"kernel": changed(KERNEL, handover=int(9.7 * GIB))},
    "driver-memory-pools": {"unit": STOPPED, "driver": "610.57.04", "log": (REFUSED,)},
    "driver-610-64k": {"driver": "610.57.04", "kernel": LARGE_PAGES, "log": (FAULT,)},
    "driver-no-memory": {"unit": STOPPED, "log": (NO_MEMORY,)},
    "gpu-spins": {"gpu": gpu(2418.0, 17.0, 96.0)},
    "gpu-slow": {
        "gpu": gpu(2411.0, 18.0, 96.0),
        "log": ("INFO 11-22 10:00:00 Avg generation throughput: 9.1 tokens/s, Running: 1 reqs",),
    },
    "nic-slow": {"nic": ("LnkSta:\tSpeed 8GT/s (downgraded), Width x4",)},
    "disk-space": {"free": {"/opt/qwen36": 900 * GIB, "/var/lib/docker": GIB}},
    "overheated": {"gpu": changed(gpu(2105.0, 71.0, 96.0), temperature=91.0, reasons=0x20)},
    "power-fault": {"gpu": gpu(611.0, 14.2, 97.0)},
    "swapping": {"swapped": 200 * 1024**2},
    # vllm-project/vllm#48140 and llamastash/llamastash#80: 2.77 GiB free, 52 available.
    "page-cache": {
        "unit": STOPPED,
        "memory": (121 * GIB, int(2.77 * GIB), 52 * GIB),
        "log": (REFUSED,),
    },
    **{
        f"down-{cause}": {"down": hard_down(cause), "downs": 1}
        for cause in ("power", "memory", "heat", "driver", "lock-up")
    },
    "hard-downs": {"downs": 1},
    "clock": {"skew": -7200.0},
    "content-null": {"finished": Finished(cut=12, ended=3)},
    "slow-start": {"starts": (*[start(weights=27)] * 3, start(200, weights=170))},
    "restarts": {"unit": changed(UNIT, restarts=4)},
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


def test_every_cause_that_a_log_shows_has_one_and_every_log_a_cause():
    shown = {name for name, cause in causes().items() if cause.shows}
    assert set(map(entry, LOGS)) == shown | {"healthy"}


def test_evidence_is_the_beginning_of_its_line():
    line = "torch.OutOfMemoryError: " + 1000 * "x"
    found, *_ = from_log(["all is well", f"  {line}"])
    assert found.evidence == line[:300]


@pytest.mark.parametrize("name", READINGS)
def test_a_reading_shows_its_cause_first(name):
    assert diagnose(changed(HEALTHY, **READINGS[name]))[0].name == name


def test_every_sign_has_a_reading_and_every_cause_a_sign_or_a_log():
    names = signs(HEALTHY).keys()
    assert READINGS.keys() == names == signs(changed(HEALTHY, gpu=None)).keys()
    assert {name for name, cause in causes().items() if not cause.shows} <= names
    assert names <= causes().keys()
    # What is likely as well is known.
    assert {name for each in causes().values() for name in each.otherwise} <= causes().keys()


@pytest.mark.parametrize("name", [each.name for each in table("host")])
def test_a_reading_shows_nothing_else(name):
    found = diagnose(changed(HEALTHY, **READINGS[name]))
    assert [each.name for each in found] == [name]


def test_names_are_unique_and_sentences_end_without_a_stop():
    subjects = (*SUBJECTS, "gpu_proof", "probes", "speed")
    every = [each for subject in subjects for each in table(subject)]
    assert len({cause.name for cause in every}) == len(every)
    assert not [each.name for each in every if f"{each.cause}{each.remedy}".endswith(".")]


@pytest.mark.parametrize(
    "changes",
    [
        {"gpu": gpu(208.0, 3.6, 0.0)},  # at rest a GPU is slow, too
        {"gpu": None, "finished": None, "gpu_inside": ""},
        {"finished": Finished(cut=0, ended=0)},
        {"memory": (121 * GIB, 2 * GIB, 30 * GIB)},  # while it serves, files may have the rest
        {"log": (NO_MEMORY,)},  # sound starts have it, too: vllm-project/vllm#56824
        {"driver": "610.57.04", "kernel": LARGE_PAGES},
        {"driver": None},
        # While weights load, a Spark swaps.
        {"unit": changed(UNIT, active="activating", starting=True), "swapped": 200 * 1024**2},
        # Of a first start that was refused, though another one serves since.
        {"memory": (121 * GIB, 3 * GIB, 52 * GIB), "log": (REFUSED, "serving")},
        # A GPU that works, and a core that rests while the GPU does.
        {"gpu": gpu(2411.0, 45.0, 95.0), "cpu": 3900.0},
        {"gpu": gpu(208.0, 3.6, 0.0), "cpu": 338.0},
        # Both of a Spark's cards have half of their lanes each.
        {"nic": ("LnkSta:\tSpeed 32GT/s, Width x4 (downgraded)",)},
        # The kernel killed another program.
        {"log": ("serving", "Out of memory: Killed process 9 (comfyui) total-vm:1kB")},
        # Another's work.
        {"unit": STOPPED, "gpu": gpu(2418.0, 17.0, 96.0)},
    ],
)
def test_a_sound_host_shows_nothing(changes):
    assert diagnose(changed(HEALTHY, **changes)) == []


TWICE = "this Spark went down hard twice within an hour while its engine ran (out of memory?)"


@pytest.mark.parametrize(
    ("cause", "name"),
    [("heat", "down-heat"), ("not known", "hard-downs"), ("", "hard-downs"), ("x\n", "hard-downs")],
)
def test_a_hard_end_is_named_once_with_its_last_seconds(cause, name):
    found = changed(HEALTHY, down=hard_down(cause), downs=2, unit=STOPPED, log=(TWICE,))
    diagnoses = diagnose(found)
    downs = [each.name for each in diagnoses if each.name.startswith(("down-", "hard-downs"))]
    assert downs == [name]
    lines = [line for line, _ in report(found, diagnoses, "tiny")]
    seen = lines.index(f"  seen: it went down hard; cause {cause}")
    assert lines[seen + 1 : seen + 3] == ["    time", "    1 2"]


STANDS = (
    "Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, "
    "Running: 2 reqs, Waiting: 0 reqs"
)


def no_cache_blocks(weights: float, available: int) -> dict[str, object]:
    """Return the readings of an engine that found no memory for its cache, in GiB."""
    log = (
        f"Model loading took {weights} GiB memory and 183.1 seconds",
        "ValueError: No available memory for the cache blocks.",
    )
    return {"unit": STOPPED, "memory": (121 * GIB, 3 * GIB, available * GIB), "log": log}


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("power-fault", {"gpu": gpu(858.0, 20.0, 96.0)}),
        ("power-fault", {"cpu": 998.0}),
        ("gpu-slow", {"gpu": gpu(2411.0, 34.0, 96.0)}),
        ("gpu-spins", {"gpu": gpu(None, None, 96.0), "log": (STANDS,)}),
        ("nic-slow", {"nic": ("Speed: 40000Mb/s",)}),
        ("page-cache", no_cache_blocks(weights=22.84, available=90)),
        ("no-memory-for-kv-cache", no_cache_blocks(weights=104.1, available=118)),
    ],
)
def test_other_readings_of_a_cause(name, changes):
    assert diagnose(changed(HEALTHY, **changes))[0].name == name


def test_what_explains_a_refusal_comes_before_it():
    kernel = changed(HEALTHY, unit=STOPPED, log=(REFUSED,), **READINGS["kernel-kho"])
    found = [each.name for each in diagnose(kernel) if not each.guess]
    assert found == ["kernel-kho", "free-memory-at-start"]


def test_no_remedy_takes_the_image_of_a_way_back():
    """Docker prunes what has neither tag nor container: images that were pulled by digest."""
    remedies = {each.name: each.remedy for each in causes().values()}
    for name in ("disk-full", "disk-space"):
        assert "sparkwright clean" in remedies[name].partition("docker builder prune")[0]
    assert not [each for each in remedies.values() if re.search(r"prune (-a|--all)", each)]


def said(checkup: Checkup, recipe: str | None = "tiny", on_demand: bool = False) -> str:
    lines = report(checkup, diagnose(checkup), recipe, on_demand)
    return "\n".join(line for line, _ in lines)


def test_no_trouble_is_said_with_what_was_looked_at():
    """Of a start under way, how far it is; of an idle Spark, that it is one."""
    text = said(HEALTHY)
    assert "2 lines of its journal" in text
    assert "no trouble found: vllm@tiny-0a1b2c3d is active (serving)" in text
    unit = changed(UNIT, active="activating", starting=True)
    text = said(changed(HEALTHY, unit=unit, log=("Starting to load model x",)))
    assert "no trouble found: vllm@tiny-0a1b2c3d is activating (loading weights)" in text
    bare = changed(HEALTHY, release=None, unit=None, log=())
    assert "this Spark is idle" in said(bare, recipe=None)
    assert "tiny was not set up yet" in said(bare)


def test_a_model_whose_turn_it_is_not_has_no_fault():
    for unit in (None, changed(UNIT, active="inactive")):
        text = said(changed(HEALTHY, unit=unit), on_demand=True)
        assert "it is stopped, as it is not its turn" in text
        assert "no trouble found" in text
        assert "shows no known cause" in said(changed(HEALTHY, unit=unit))
    assert "shows no known cause" in said(changed(HEALTHY, unit=STOPPED), on_demand=True)


def test_an_unknown_failure_shows_its_last_errors():
    log = ("starting", "SomeNewError: nobody knows", "engine ended: its exit status was 1")
    text = said(changed(HEALTHY, unit=STOPPED, log=log))
    assert "shows no known cause" in text
    assert "SomeNewError: nobody knows" in text
    assert "journalctl -u vllm@tiny-0a1b2c3d" in text


def test_at_most_three_causes_are_shown_in_full():
    log = ("No space left on device", "Address already in use", "CUDA out of memory", "fp8e4nv")
    text = said(changed(HEALTHY, unit=STOPPED, log=log))
    assert text.count("cause: ") == 3
    assert "and also: cuda-out-of-memory" in text
