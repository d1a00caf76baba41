"""Causes that a Spark itself shows, independently of its engine's log."""

from collections.abc import Callable

from sparkwright.causes.cause import APPLY, CLOCK_REMEDY, SPACE_REMEDY, ReadingCause, first_line
from sparkwright.causes.thresholds import CLOCK_SKEW, DISK_FULL, SPIN_BUSY, SPIN_WATTS, SWAPPING
from sparkwright.common.hardware import GIB
from sparkwright.doctor.checkup import Checkup
from sparkwright.doctor.gpu import POWER_FAULT, gpu_lost
from sparkwright.host.kernel import HANDOVER_LEAST, POOLS_REMEDY

HostCause = ReadingCause[Checkup]

_REFUSED = "less than desired GPU memory utilization"
# The first driver branch that keeps memory which a process has freed.
_POOLS = 610
_NO_MEMORY = r"NVRM.*(NV_ERR_NO_MEMORY|Out of memory)"
_FAULT = r"Xid.*\b31\b.*(MMU Fault|FAULT_PTE)"


def _spins(checkup: Checkup) -> str | None:
    gpu, unit = checkup.gpu, checkup.unit
    if not gpu or gpu.busy is None or gpu.power is None or gpu.held_back:
        return None
    serves = unit is not None and unit.active == "active"
    if not serves or gpu.busy < SPIN_BUSY or gpu.power > SPIN_WATTS:
        return None
    return f"{gpu.power:.0f} W while {gpu.busy:.0f} % busy"


def _no_runtime(checkup: Checkup) -> str | None:
    if checkup.docker is None or "nvidia" in checkup.runtimes:
        return None
    return f"Docker's runtimes: {', '.join(checkup.runtimes)}"


def _disk_full(checkup: Checkup) -> str | None:
    full = [f"{s / GIB:.1f} GiB at {path}" for path, s in checkup.free.items() if s < DISK_FULL]
    return f"free: {', '.join(full)}" if full else None


def _thrash(checkup: Checkup) -> str | None:
    mib = checkup.swapped / 1024**2
    return f"{mib:.0f} MiB swapped within a second" if checkup.swapped > SWAPPING else None


def _clock(checkup: Checkup) -> str | None:
    seconds = checkup.skew
    word = "ahead of" if seconds > 0 else "behind"
    return f"{abs(seconds):.0f} s {word} this machine's" if abs(seconds) > CLOCK_SKEW else None


def _downs(checkup: Checkup) -> str | None:
    return f"{checkup.downs} within a day, by state/hard-downs" if checkup.downs else None


def _cut(checkup: Checkup) -> str | None:
    requests = checkup.finished
    if requests is None or requests.cut == 0 or requests.cut <= requests.ended:
        return None
    return f"{requests.cut} of {requests.cut + requests.ended} requests were cut by max_tokens"


def _restarts(checkup: Checkup) -> str | None:
    restarts = checkup.unit.restarts if checkup.unit else 0
    return f"NRestarts={restarts} of vllm@{checkup.release}" if restarts else None


def _refused(checkup: Checkup) -> bool:
    return any(_REFUSED in line for line in checkup.log)


def _branch(checkup: Checkup) -> int:
    digits = (checkup.driver or "").split(".")[0]
    return int(digits) if digits.isdigit() else 0


def _kho(checkup: Checkup) -> str | None:
    named, free = checkup.cma
    if free - named < HANDOVER_LEAST:
        return None
    cma = f"CmaFree {free / GIB:.1f} GiB of CmaTotal {named / GIB:.1f} GiB"
    return f"{cma}, kernel {checkup.kernel}"


def _page_cache(checkup: Checkup) -> str | None:
    _, free, available = checkup.memory
    # Where twice as much is available as vLLM finds free, it is files in memory that make the
    # difference (vllm-project/vllm#35313 and #48140).
    if not _refused(checkup) or available < 2 * free:
        return None
    return f"{free / GIB:.1f} GiB free, {available / GIB:.1f} GiB available"


def _pools(checkup: Checkup) -> str | None:
    return f"driver {checkup.driver}" if _refused(checkup) and _branch(checkup) >= _POOLS else None


def _submaps(checkup: Checkup) -> str | None:
    large_pages = checkup.kernel.endswith("-64k") and _branch(checkup) >= _POOLS
    return first_line(checkup.log, _FAULT) if large_pages else None


def _no_memory(checkup: Checkup) -> str | None:
    unit = checkup.unit
    # Sound starts log this line, too: it counts only where something went wrong (vllm#56824).
    failing = checkup.downs or unit is None or unit.ended or unit.restarts
    return first_line(checkup.log, _NO_MEMORY) if failing else None


def _port_taken(checkup: Checkup) -> str | None:
    return f"listening: {', '.join(checkup.listeners)}" if checkup.listeners else None


# The signs by which the host itself shows causes that a log may name.
LOG_SIGNS: dict[str, Callable[[Checkup], str | None]] = {
    "kernel-kho": _kho,
    "port-taken": _port_taken,
}

# Causes that explain a cause in the log, and so come before it.
ROOT_CAUSES = (
    HostCause(
        name="page-cache",
        cause="vLLM counts the page cache as used memory",
        remedy="Nothing, if our unit starts the engine: it drops the page cache first. By hand: "
        "`sudo sh -c 'sync; echo 3 > /proc/sys/vm/drop_caches'`",
        source="vllm-project/vllm#35313, #48140",
        sign=_page_cache,
    ),
    HostCause(
        name="driver-memory-pools",
        cause="Driver 610 keeps memory that the previous engine freed",
        remedy=f"{POOLS_REMEDY}; a reboot alone helps once",
        source="christopherowen/dgx-spark-memory-saver: docs/driver-610.md, three Sparks",
        sign=_pools,
    ),
    HostCause(
        name="driver-610-64k",
        cause="Driver 610 faults on a kernel with pages of 64 KiB",
        remedy="Boot the kernel without -64k in its name, or go back to driver 580",
        source="christopherowen/dgx-spark-memory-saver; NVIDIA/open-gpu-kernel-modules#1269",
        sign=_submaps,
    ),
    HostCause(
        name="driver-no-memory",
        cause="The driver could not allocate memory for itself: model, drafts, page cache and "
        "system use all of it, which may freeze a Spark without an OOM kill",
        remedy="Lower gpu-memory-utilization to 0.75 or less and max-num-batched-tokens to 4096; "
        "with MTP take fewer num_speculative_tokens, or none; "
        'PYTORCH_CUDA_ALLOC_CONF: "expandable_segments:False" in the recipe\'s `env` helped some',
        source="NVIDIA/dgx-spark-playbooks#97; NVIDIA/open-gpu-kernel-modules#1358; "
        "vllm-project/vllm#56824, #44740",
        sign=_no_memory,
    ),
)

HOST_CAUSES = (
    HostCause(
        name="gpu-lost-in-container",
        cause="The engine's container lost the GPU; `systemctl daemon-reload` can cause that",
        remedy="`sudo systemctl restart 'vllm@*'`",
        source="NVIDIA/nvidia-container-toolkit#1227; gorlak/sparky-cluster",
        sign=lambda checkup: gpu_lost(checkup.gpu_inside or ""),
    ),
    HostCause(
        name="docker-down",
        cause="No Docker daemon answers",
        remedy="`sudo systemctl enable --now docker`, and `journalctl -u docker` if it does not",
        source="the engine waits for Docker",
        sign=lambda checkup: (
            None if checkup.docker else "`docker version` gets no answer of a daemon"
        ),
    ),
    HostCause(
        name="docker-runtime",
        cause="Docker does not know the NVIDIA runtime",
        remedy=f"{APPLY} sets it up",
        source="NVIDIA's playbooks openshell, vss, nim-llm",
        sign=_no_runtime,
    ),
    HostCause(
        name="disk-space",
        cause="A disk is full",
        remedy=SPACE_REMEDY,
        source="ENOSPC",
        sign=_disk_full,
    ),
    HostCause(
        name="gpu-spins",
        cause="The GPU is busy but computes nothing: a kernel is stuck, although /health still "
        "returns 200",
        remedy="The supervisor restarts the engine by itself (by hand: `sudo systemctl restart "
        "'vllm@*'`). If it recurs, set VLLM_USE_FLASHINFER_SAMPLER: \"0\" in the recipe's "
        "`env`, then enforce-eager, or use an image with vLLM 0.28 or newer",
        source="vllm-project/vllm#49203; eugr/spark-vllm-docker#260",
        sign=_spins,
    ),
    HostCause(
        **vars(POWER_FAULT), sign=lambda checkup: checkup.gpu.held_back if checkup.gpu else None
    ),
    HostCause(
        name="swapping",
        cause="The Spark is swapping, which makes everything slow",
        remedy="Lower the recipe's gpu-memory-utilization (AI-Guru: from 0.80 to 0.75)",
        source="AI-Guru",
        sign=_thrash,
    ),
    HostCause(
        name="hard-downs",
        cause="The Spark lost its power or froze while its engine ran",
        remedy="Lower the recipe's gpu-memory-utilization; where memory is not the cause, "
        f"{CLOCK_REMEDY}; after two within an hour the engine is not started at boot",
        source="files/host/engine/crash_guard.py",
        sign=_downs,
    ),
    HostCause(
        name="clock",
        cause="The clock of the Spark or of this machine is wrong; TLS then fails",
        remedy="`sudo timedatectl set-ntp true`",
        source="NVIDIA's playbook trt-llm",
        sign=_clock,
    ),
    HostCause(
        name="content-null",
        cause="Most answers hit max_tokens: a thinking model spent them on reasoning, and "
        "`content` is null with finish_reason length",
        remedy="Send requests with max_tokens of 2048 or more, or with chat_template_kwargs "
        '{"enable_thinking": false}',
        source="AEON-7; NVIDIA's playbook vllm",
        sign=_cut,
    ),
    HostCause(
        name="restarts",
        cause="The engine ended by itself and was restarted",
        remedy="For the reason see `journalctl -u 'vllm@*'`. After five starts within an hour "
        "systemd gives up",
        source="files/host/engine/vllm@.service",
        sign=_restarts,
    ),
)
