"""Causes that a Spark itself shows, whatever its engine's log says."""

from deploys.plan.ailment import HostAilment
from deploys.plan.checkup import Checkup

_GIB = 1024**3

# Bytes a second to and from the disk: far above what an idle desktop swaps.
_THRASH = 20 * 1024**2
# Free for root on a disk before things begin to fail.
DISK = 2 * _GIB
# Seconds: what group_data allows the clocks to differ.
_SKEW = 60
# Where vLLM finds less than this share of the memory free while twice as much is available, it is
# files in memory that make the difference (vllm-project/vllm#35313 and #48140).
_SHARE, _REFUSED = 0.5, "less than desired GPU memory utilization"


def _throttled(checkup: Checkup) -> str | None:
    return checkup.gpu.held_back if checkup.gpu else None


def _gpu_lost(checkup: Checkup) -> str | None:
    # An image may lack nvidia-smi: that alone says nothing.
    said = checkup.gpu_inside or ""
    return f"nvidia-smi in the container: {said}" if "Failed to initialize NVML" in said else None


def _no_docker(checkup: Checkup) -> str | None:
    return "`docker version` gets no answer of a daemon" if checkup.docker is None else None


def _no_runtime(checkup: Checkup) -> str | None:
    if checkup.docker is None or "nvidia" in checkup.runtimes:
        return None
    return f"Docker's runtimes: {', '.join(checkup.runtimes)}"


def _disk_full(checkup: Checkup) -> str | None:
    full = [
        f"{size / _GIB:.1f} GiB at {path}" for path, size in checkup.free.items() if size < DISK
    ]
    return f"free: {', '.join(full)}" if full else None


def _thrash(checkup: Checkup) -> str | None:
    mib = checkup.swapped / 1024**2
    return f"{mib:.0f} MiB swapped within a second" if checkup.swapped > _THRASH else None


def _page_cache(checkup: Checkup) -> str | None:
    total, free, available = checkup.memory
    refused = any(_REFUSED in line for line in checkup.log)
    if not refused or free > _SHARE * total or available < 2 * free:
        return None
    return f"{free / _GIB:.1f} GiB free, {available / _GIB:.1f} GiB available"


def _port_taken(checkup: Checkup) -> str | None:
    return f"listening: {', '.join(checkup.listeners)}" if checkup.listeners else None


def _clock(checkup: Checkup) -> str | None:
    seconds = checkup.skew
    word = "ahead of" if seconds > 0 else "behind"
    return f"{abs(seconds):.0f} s {word} this machine's" if abs(seconds) > _SKEW else None


def _downs(checkup: Checkup) -> str | None:
    return f"{checkup.downs} within a day, by state/hard-downs" if checkup.downs else None


def _cut(checkup: Checkup) -> str | None:
    done = checkup.finished
    if done is None or done.cut == 0 or done.cut <= done.ended:
        return None
    return f"{done.cut} of {done.cut + done.ended} requests were cut by max_tokens"


def _restarts(checkup: Checkup) -> str | None:
    restarts = checkup.unit.restarts if checkup.unit else 0
    return f"NRestarts={restarts} of vllm@{checkup.release}" if restarts else None


HOST_AILMENTS = (
    HostAilment(
        name="gpu-lost-in-container",
        cause="The engine's container has lost the GPU, as `systemctl daemon-reload` may make it",
        remedy="`sudo systemctl restart 'vllm@*'`",
        source="NVIDIA/nvidia-container-toolkit#1227; gorlak/sparky-cluster",
        sign=_gpu_lost,
    ),
    HostAilment(
        name="docker-down",
        cause="No Docker daemon answers",
        remedy="`sudo systemctl enable --now docker`, and `journalctl -u docker` if it does not",
        source="the engine waits for Docker",
        sign=_no_docker,
    ),
    HostAilment(
        name="docker-runtime",
        cause="Docker does not know the NVIDIA runtime",
        remedy="Run pyinfra again, which sets it up",
        source="NVIDIA's playbooks openshell, vss, nim-llm",
        sign=_no_runtime,
    ),
    HostAilment(
        name="port-listener",
        cause="Another process has the engine's port, while the engine does not run",
        remedy="Stop it, or give the replica another `port:` in the inventory",
        source="EADDRINUSE",
        sign=_port_taken,
    ),
    HostAilment(
        name="disk-space",
        cause="A disk is full",
        remedy="`docker image prune -a`; weights that no recipe names",
        source="ENOSPC",
        sign=_disk_full,
    ),
    HostAilment(
        name="power-fault",
        cause="The GPU is held back under load: the supply was not negotiated at power-up",
        remedy="Shut the Spark down, unplug it from the wall and the unit for a minute",
        source="parallelArchitect/spark-gpu-throttle-check; ai-muninn.com",
        sign=_throttled,
    ),
    HostAilment(
        name="swapping",
        cause="Memory goes to the disk and back: nothing is fast while it does",
        remedy="Lower the recipe's gpu-memory-utilization (seed 000: from 0.80 to 0.75)",
        source="seed 000",
        sign=_thrash,
    ),
    HostAilment(
        name="page-cache",
        cause="Files in memory take what vLLM looks for: it counts them as used",
        remedy="Nothing where our unit starts the engine, as it drops them first; by hand: "
        "`sudo sh -c 'sync; echo 3 > /proc/sys/vm/drop_caches'`",
        source="vllm-project/vllm#35313, #48140",
        sign=_page_cache,
    ),
    HostAilment(
        name="hard-downs",
        cause="The Spark lost its power or froze while its engine ran",
        remedy="Lower the recipe's gpu-memory-utilization; two within an hour keep it from "
        "starting at boot",
        source="files/engine/boots.py",
        sign=_downs,
    ),
    HostAilment(
        name="clock",
        cause="Its clock or that of this machine is wrong: TLS fails when it is off",
        remedy="`sudo timedatectl set-ntp true`",
        source="NVIDIA's playbook trt-llm",
        sign=_clock,
    ),
    HostAilment(
        name="content-null",
        cause="Most answers are cut short: a thinking model has then spent max_tokens on "
        "reasoning, and `content` is null with finish_reason length",
        remedy="Ask with max_tokens of 2048 or more, or with chat_template_kwargs "
        '{"enable_thinking": false}',
        source="seed 001; NVIDIA's playbook vllm",
        sign=_cut,
    ),
    HostAilment(
        name="restarts",
        cause="The engine has been started again after it ended by itself",
        remedy="Look at why: `journalctl -u 'vllm@*'`; five starts an hour, and systemd gives up",
        source="files/engine/vllm@.service",
        sign=_restarts,
    ),
)
