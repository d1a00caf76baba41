"""The readings of a Spark by which it shows a cause itself, whatever is in its engine's log."""

from collections.abc import Callable

from sparkwright.causes.cause import first_line
from sparkwright.causes.thresholds import CLOCK_SKEW, DISK_FULL, SPIN_BUSY, SPIN_WATTS, SWAPPING
from sparkwright.common.hardware import GIB
from sparkwright.doctor.checkup import Checkup
from sparkwright.doctor.gpu import gpu_lost
from sparkwright.host.kernel import HANDOVER_LEAST

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


# Name of a cause -> what of a reading shows it, in words; None where nothing does.
SIGNS: dict[str, Callable[[Checkup], str | None]] = {
    "page-cache": _page_cache,
    "driver-memory-pools": _pools,
    "driver-610-64k": _submaps,
    "driver-no-memory": _no_memory,
    "kernel-kho": _kho,
    "port-taken": _port_taken,
    "gpu-lost-in-container": lambda checkup: gpu_lost(checkup.gpu_inside or ""),
    "docker-down": lambda checkup: (
        None if checkup.docker else "`docker version` gets no answer of a daemon"
    ),
    "docker-runtime": _no_runtime,
    "disk-space": _disk_full,
    "gpu-spins": _spins,
    "power-fault": lambda checkup: checkup.gpu.held_back if checkup.gpu else None,
    "swapping": _thrash,
    "hard-downs": _downs,
    "clock": _clock,
    "content-null": _cut,
    "restarts": _restarts,
}
