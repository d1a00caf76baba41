"""Causes that a Spark itself shows, whatever its engine's log says."""

from deploys.plan.ailment import HostAilment
from deploys.plan.checkup import Checkup
from deploys.plan.clean import SPACE_REMEDY

_GIB = 1024**3

# Bytes a second to and from the disk: far above what an idle desktop swaps.
_THRASH = 20 * 1024**2
# Free for root on a disk before things begin to fail.
DISK = 2 * _GIB
# Seconds: what group_data allows the clocks to differ.
_SKEW = 60


# A kernel that waits for ever counts as busy: 13 to 22 W at 96 % were reported of such engines, and
# 45 W and more of those that work.
_SPINNING_BUSY, _SPINNING_WATTS = 90, 30


def _spins(checkup: Checkup) -> str | None:
    gpu, unit = checkup.gpu, checkup.unit
    if not gpu or gpu.busy is None or gpu.power is None or gpu.held_back:
        return None
    serves = unit is not None and unit.active == "active"
    if not serves or gpu.busy < _SPINNING_BUSY or gpu.power > _SPINNING_WATTS:
        return None
    return f"{gpu.power:.0f} W while {gpu.busy:.0f} % busy"


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
        name="disk-space",
        cause="A disk is full",
        remedy=SPACE_REMEDY,
        source="ENOSPC",
        sign=_disk_full,
    ),
    HostAilment(
        name="gpu-spins",
        cause="The GPU is busy and computes nothing: a kernel waits for ever, while /health says "
        "that all is well",
        remedy="`sudo systemctl restart 'vllm@*'`, which our supervisor does by itself; if it "
        'recurs, VLLM_USE_FLASHINFER_SAMPLER: "0" in the recipe\'s `env`, then enforce-eager, or '
        "an image of 0.28 or newer",
        source="vllm-project/vllm#49203; eugr/spark-vllm-docker#260",
        sign=_spins,
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
        remedy="Lower the recipe's gpu-memory-utilization (AI-Guru: from 0.80 to 0.75)",
        source="AI-Guru",
        sign=_thrash,
    ),
    HostAilment(
        name="hard-downs",
        cause="The Spark lost its power or froze while its engine ran",
        remedy="Lower the recipe's gpu-memory-utilization; where memory is not the cause, limit "
        "the GPU's clock (gpu_clock_max_mhz = 2200 in the group data); two within an hour keep it "
        "from starting at boot",
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
        source="AEON-7; NVIDIA's playbook vllm",
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
