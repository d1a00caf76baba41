"""The doctor's diagnoses: the known causes, held against an engine's log and a host's readings."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC

from sparkwright.common.hardware import GIB
from sparkwright.common.progress import time_text
from sparkwright.common.startup import slow_phases
from sparkwright.insight.doctor.checkup import Checkup, FailedSwitch, gpu_lost
from sparkwright.plan.causes.log_causes import Diagnosis, first_line, from_log, in_order, known_of
from sparkwright.plan.causes.thresholds import (
    CLOCK_SKEW,
    DISK_FULL,
    FAULT_BUSY,
    FAULT_WATTS,
    SLOW_CPU_MHZ,
    SPIN_BUSY,
    SPIN_WATTS,
    SWAPPING,
)

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
_NO_MEMORY = r"NV_ERR_NO_MEMORY|NVRM.*Out of memory"
_FAULT = r"Xid.*\b31\b.*(MMU Fault|FAULT_PTE)"
# Bits of `clocks_event_reasons.active` by which driver or hardware slow the GPU for its heat.
_HEAT = 0x20 | 0x40
Signs = dict[str, str | None]


def diagnose(
    checkup: Checkup, link: Sequence[Diagnosis] = (), wanted: str | None = None
) -> list[Diagnosis]:
    """Return every cause that a Spark and its link show, the one to begin with first.

    Args:
        wanted: the release that the inventory asks for, empty for an idle Spark; None if unknown.
    """
    found = from_log(checkup.log, signs(checkup), checkup.sound)
    return in_order([*found, *from_switch(checkup.failed, wanted), *link])


def from_switch(failed: FailedSwitch | None, wanted: str | None = None) -> list[Diagnosis]:
    """Return why the release of the last switch does not serve; nothing once it is not wanted."""
    if failed is None or wanted not in (None, failed.release):
        return []
    day = time_text(failed.at, "%Y-%m-%d %H:%M UTC", UTC)
    known = [
        replace(each, cause=f"{failed.release} did not come to serve on {day}. {each.cause}")
        for each in from_log(failed.log)
        if not each.guess
    ]
    cause = f"The last switch, to {failed.release} on {day}, failed"
    remedy = f"`journalctl -u vllm@{failed.release} -u switch@{failed.release}` has all of it"
    return known or [Diagnosis("switch-failed", cause, failed.reason, remedy)]


def signs(checkup: Checkup) -> Signs:
    """Return name of a cause -> what of a reading shows it, in words; None where nothing does."""
    return {**_memory(checkup), **_gpu(checkup), **_host(checkup), **_engine(checkup)}


def _memory(checkup: Checkup) -> Signs:
    unit, log = checkup.unit, checkup.log
    kernel, (total, free, available) = checkup.kernel, checkup.memory
    refused = not checkup.sound and any(_REFUSED in line for line in log)
    system = {"kernel": kernel.release, "driver": checkup.driver or ""}
    known = {each.name for each in known_of(system)}
    pools = "driver-memory-pools" in known
    # Sound starts log this line, too: it counts only where something went wrong (vllm#56824).
    failing = checkup.downs or unit is None or unit.ended or unit.restarts
    # Where twice as much is available as vLLM finds free, it is files in memory that make the
    # difference (vllm-project/vllm#35313 and #48140): unless the weights themselves fill it.
    weights = sum(float(found[1]) for line in log if (found := _WEIGHTS.search(line))) * GIB
    short = not checkup.sound and any(_SHORT.search(line) for line in log)
    cached = short and available >= 2 * free and (refused or weights <= total / 2)
    files = f"{free / GIB:.1f} GiB free, {available / GIB:.1f} GiB available"
    kept = f"{kernel.handover / GIB:.1f} GiB, by kernel {kernel.release}"
    return {
        "page-cache": files if cached else None,
        "driver-memory-pools": f"driver {checkup.driver}" if refused and pools else None,
        "driver-610-64k": first_line(log, _FAULT) if "driver-610-64k" in known else None,
        "driver-no-memory": first_line(log, _NO_MEMORY) if failing else None,
        "kernel-kho": kept if kernel.handover else None,
    }


def _gpu(checkup: Checkup) -> Signs:
    gpu, cpu, unit = checkup.gpu, checkup.cpu, checkup.unit
    found: Signs = dict.fromkeys(("gpu-spins", "gpu-slow", "overheated", "power-fault"))
    found["gpu-lost-in-container"] = gpu_lost(checkup.gpu_inside)
    if gpu is None:
        return found
    busy, power = gpu.busy or 0, gpu.power
    if (gpu.reasons or 0) & _HEAT:
        found["overheated"] = f"the GPU is slowed for its heat, at {gpu.temperature or 0:.0f} °C"
    found["power-fault"] = gpu.held_back
    if not gpu.held_back and cpu is not None and cpu <= SLOW_CPU_MHZ and busy >= FAULT_BUSY:
        found["power-fault"] = f"its fastest core is at {cpu:.0f} MHz while the GPU is busy"
    # The engine's last line about its throughput.
    pace = next((each for each in checkup.log[::-1] if "Avg generation throughput" in each), "")
    if power is None and busy >= SPIN_BUSY and _STANDS.search(pace):
        found["gpu-spins"] = f"{busy:.0f} % busy, and no request advances: {pace}"
    serves = unit is not None and unit.active == "active" and not gpu.held_back
    if serves and power is not None and busy >= SPIN_BUSY and power <= FAULT_WATTS:
        # At next to no power, with a clock that is right.
        spins = power <= SPIN_WATTS and not _GENERATES.search(pace)
        found["gpu-spins" if spins else "gpu-slow"] = f"{power:.0f} W while {busy:.0f} % busy"
    return found


def _host(checkup: Checkup) -> Signs:
    full = [f"{s / GIB:.1f} GiB at {path}" for path, s in checkup.free.items() if s < DISK_FULL]
    starts = checkup.unit is not None and checkup.unit.active == "activating"
    swapped, swaps = checkup.swapped / 1024**2, checkup.swapped > SWAPPING and not starts
    known = checkup.docker is None or "nvidia" in checkup.runtimes
    ahead, seconds = "ahead of" if checkup.skew > 0 else "behind", abs(checkup.skew)
    return {
        "docker-down": None if checkup.docker else "`docker version` gets no answer of a daemon",
        "docker-runtime": None if known else f"Docker's runtimes: {', '.join(checkup.runtimes)}",
        "disk-space": f"free: {', '.join(full)}" if full else None,
        "nic-slow": first_line(checkup.nic, _SLOW_LINK),
        "swapping": f"{swapped:.0f} MiB swapped within a second" if swaps else None,
        "clock": f"{seconds:.0f} s {ahead} this machine's" if seconds > CLOCK_SKEW else None,
    }


def _engine(checkup: Checkup) -> Signs:
    downs, restarts = checkup.downs, checkup.unit.restarts if checkup.unit else 0
    cut, ended = (done.cut, done.ended) if (done := checkup.finished) else (0, 0)
    short = f"{cut} of {cut + ended} requests were cut by max_tokens"
    found: Signs = {
        **dict.fromkeys(("down-power", "down-memory", "down-heat", "down-driver", "down-lock-up")),
        "hard-downs": f"{downs} within a day, by state/hard-downs" if downs else None,
        "restarts": f"NRestarts={restarts} of vllm@{checkup.release}" if restarts else None,
        "content-null": short if cut > ended else None,
        "slow-start": "; ".join(slow_phases(checkup.starts)) or None,
    }
    if checkup.down:
        name = f"down-{checkup.down.cause}"
        found |= {"hard-downs": None, name if name in found else "hard-downs": checkup.down.said}
    return found
