"""The readings of a Spark by which it shows a cause itself, whatever is in its engine's log."""

import re
from collections.abc import Callable

from sparkwright.causes.cause import first_line
from sparkwright.causes.thresholds import (
    CLOCK_SKEW,
    DISK_FULL,
    FAULT_BUSY,
    FAULT_WATTS,
    SLOW_CPU_MHZ,
    SPIN_BUSY,
    SPIN_WATTS,
    SWAPPING,
)
from sparkwright.common.hardware import GIB
from sparkwright.doctor.checkup import Checkup
from sparkwright.doctor.gpu import gpu_lost
from sparkwright.host.kernel import HANDOVER_LEAST

_REFUSED = "less than desired GPU memory utilization"
# vLLM counts the page cache as used by these as well.
_SHORT = re.compile(
    rf"{_REFUSED}|No available memory for the cache blocks|Available KV cache memory: -[\d.]|"
    "larger than the available KV cache memory|CUDA out of memory"
)
_WEIGHTS = re.compile(r"Model loading took ([\d.]+) GiB")
# lspci's and ethtool's words for a link below the speed of a Spark's card: 32 GT/s, 200 Gb/s.
_SLOW_LINK = (
    r"Speed (2\.5|5|8|16)(\.0)? ?GT/s|GT/s \(downgraded\)|Width x[12]\b|"
    r"Speed: (1|10|25|40|50)000Mb/s"
)
# An engine's line about ten seconds in which requests stood still; in which it generated tokens.
_STANDS = re.compile(r"prompt throughput: 0\.0 .*generation throughput: 0\.0 .*Running: [1-9]")
_GENERATES = re.compile(r"Avg generation throughput: (?!0\.0 )[\d.]+ tokens/s")
# The first driver branch that keeps memory which a process has freed.
_POOLS = 610
_NO_MEMORY = r"NV_ERR_NO_MEMORY|NVRM.*Out of memory"
_FAULT = r"Xid.*\b31\b.*(MMU Fault|FAULT_PTE)"


def _starved(checkup: Checkup) -> str | None:
    """Return the readings of a GPU that is busy at next to no power, with a clock that is right."""
    gpu, unit = checkup.gpu, checkup.unit
    if not gpu or gpu.busy is None or gpu.power is None or gpu.held_back:
        return None
    serves = unit is not None and unit.active == "active"
    if not serves or gpu.busy < SPIN_BUSY or gpu.power > FAULT_WATTS:
        return None
    return f"{gpu.power:.0f} W while {gpu.busy:.0f} % busy"


def _pace(checkup: Checkup) -> str:
    """Return the engine's last line about its throughput; "" without."""
    return next((each for each in checkup.log[::-1] if "Avg generation throughput" in each), "")


def _spins(checkup: Checkup) -> str | None:
    gpu, pace = checkup.gpu, _pace(checkup)
    if gpu and gpu.power is None and (gpu.busy or 0) >= SPIN_BUSY and _STANDS.search(pace):
        return f"{gpu.busy:.0f} % busy, and no request advances: {pace}"
    if gpu is None or (gpu.power or 0) > SPIN_WATTS or _GENERATES.search(pace):
        return None
    return _starved(checkup)


def _slow(checkup: Checkup) -> str | None:
    return None if _spins(checkup) else _starved(checkup)


def _held_back(checkup: Checkup) -> str | None:
    gpu, cpu = checkup.gpu, checkup.cpu
    if gpu is None:
        return None
    slow = cpu is not None and cpu <= SLOW_CPU_MHZ and (gpu.busy or 0) >= FAULT_BUSY
    core = f"its fastest core is at {cpu:.0f} MHz while the GPU is busy" if slow else None
    return gpu.held_back or core


def _no_runtime(checkup: Checkup) -> str | None:
    if checkup.docker is None or "nvidia" in checkup.runtimes:
        return None
    return f"Docker's runtimes: {', '.join(checkup.runtimes)}"


def _disk_full(checkup: Checkup) -> str | None:
    full = [f"{s / GIB:.1f} GiB at {path}" for path, s in checkup.free.items() if s < DISK_FULL]
    return f"free: {', '.join(full)}" if full else None


def _thrash(checkup: Checkup) -> str | None:
    mib = checkup.swapped / 1024**2
    if checkup.unit and checkup.unit.active == "activating":
        return None
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
    return not checkup.sound and any(_REFUSED in line for line in checkup.log)


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
    total, free, available = checkup.memory
    # Where twice as much is available as vLLM finds free, it is files in memory that make the
    # difference (vllm-project/vllm#35313 and #48140): unless the weights themselves fill it.
    weights = [float(found[1]) for line in checkup.log if (found := _WEIGHTS.search(line))]
    large = bool(weights) and sum(weights) * GIB > total / 2
    short = any(_SHORT.search(line) for line in checkup.log)
    if checkup.sound or not short or available < 2 * free or (large and not _refused(checkup)):
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


# Name of a cause -> what of a reading shows it, in words; None where nothing does.
SIGNS: dict[str, Callable[[Checkup], str | None]] = {
    "page-cache": _page_cache,
    "driver-memory-pools": _pools,
    "driver-610-64k": _submaps,
    "driver-no-memory": _no_memory,
    "kernel-kho": _kho,
    "gpu-lost-in-container": lambda checkup: gpu_lost(checkup.gpu_inside or ""),
    "docker-down": lambda checkup: (
        None if checkup.docker else "`docker version` gets no answer of a daemon"
    ),
    "docker-runtime": _no_runtime,
    "disk-space": _disk_full,
    "gpu-spins": _spins,
    "gpu-slow": _slow,
    "nic-slow": lambda checkup: first_line(checkup.nic, _SLOW_LINK),
    "power-fault": _held_back,
    "swapping": _thrash,
    "hard-downs": _downs,
    "clock": _clock,
    "content-null": _cut,
    "restarts": _restarts,
}
