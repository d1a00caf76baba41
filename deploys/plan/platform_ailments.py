"""Causes in what an engine stands on: kernel, driver, PCIe, container runtime."""

import re

from deploys.plan.ailment import HostAilment, LogAilment
from deploys.plan.checkup import Checkup
from deploys.plan.kernel import HANDOVER_LEAST, HANDOVER_REMEDY, POOLS_REMEDY

_GIB = 1024**3

_REFUSED = "less than desired GPU memory utilization"
# The branch of the driver that keeps what a process freed.
_POOLS = 610
_NO_MEMORY = re.compile(r"NVRM.*(NV_ERR_NO_MEMORY|Out of memory)")
_FAULT = re.compile(r"Xid.*\b31\b.*(MMU Fault|FAULT_PTE)")


def _line(checkup: Checkup, pattern: re.Pattern[str]) -> str | None:
    return next((line.strip() for line in checkup.log if pattern.search(line)), None)


def _refused(checkup: Checkup) -> bool:
    return any(_REFUSED in line for line in checkup.log)


def _branch(checkup: Checkup) -> int:
    digits = (checkup.driver or "").split(".")[0]
    return int(digits) if digits.isdigit() else 0


def _kho(checkup: Checkup) -> str | None:
    named, free = checkup.cma
    if free - named < HANDOVER_LEAST:
        return None
    return (
        f"CmaFree {free / _GIB:.1f} GiB of CmaTotal {named / _GIB:.1f} GiB, kernel {checkup.kernel}"
    )


def _page_cache(checkup: Checkup) -> str | None:
    _, free, available = checkup.memory
    # Where twice as much is available as vLLM finds free, it is files in memory that make the
    # difference (vllm-project/vllm#35313 and #48140).
    if not _refused(checkup) or available < 2 * free:
        return None
    return f"{free / _GIB:.1f} GiB free, {available / _GIB:.1f} GiB available"


def _pools(checkup: Checkup) -> str | None:
    return f"driver {checkup.driver}" if _refused(checkup) and _branch(checkup) >= _POOLS else None


def _submaps(checkup: Checkup) -> str | None:
    large_pages = checkup.kernel.endswith("-64k") and _branch(checkup) >= _POOLS
    return _line(checkup, _FAULT) if large_pages else None


def _no_memory(checkup: Checkup) -> str | None:
    unit = checkup.unit
    # Sound starts have this line, too: it counts where something went wrong (vllm#56824).
    failing = checkup.downs or unit is None or unit.ended or unit.restarts
    return _line(checkup, _NO_MEMORY) if failing else None


# What explains a line of the log, and so comes before it.
ROOT_AILMENTS = (
    HostAilment(
        name="page-cache",
        cause="Files in memory take what vLLM looks for: it counts them as used",
        remedy="Nothing where our unit starts the engine, as it drops them first; by hand: "
        "`sudo sh -c 'sync; echo 3 > /proc/sys/vm/drop_caches'`",
        source="vllm-project/vllm#35313, #48140",
        sign=_page_cache,
    ),
    HostAilment(
        name="driver-memory-pools",
        cause="Driver 610 keeps the memory that the engine before has freed",
        remedy=f"{POOLS_REMEDY}; a reboot alone helps once",
        source="christopherowen/dgx-spark-memory-saver: docs/driver-610.md, three Sparks",
        sign=_pools,
    ),
    HostAilment(
        name="driver-610-64k",
        cause="Driver 610 faults on a kernel with pages of 64 KiB",
        remedy="Boot the kernel without -64k in its name, or go back to driver 580",
        source="christopherowen/dgx-spark-memory-saver; NVIDIA/open-gpu-kernel-modules#1269",
        sign=_submaps,
    ),
    HostAilment(
        name="driver-no-memory",
        cause="The driver got no memory for itself: model, drafts, files and system together took "
        "all of it, which may freeze a Spark without any OOM kill",
        remedy="Lower gpu-memory-utilization to 0.75 or less and max-num-batched-tokens to 4096; "
        "with MTP take fewer num_speculative_tokens, or none; "
        'PYTORCH_CUDA_ALLOC_CONF: "expandable_segments:False" in the recipe\'s `env` helped some',
        source="NVIDIA/dgx-spark-playbooks#97; NVIDIA/open-gpu-kernel-modules#1358; "
        "vllm-project/vllm#56824, #44740",
        sign=_no_memory,
    ),
)

PLATFORM_AILMENTS = (
    LogAilment(
        name="kernel-kho",
        cause="The kernel sets memory aside for a handover between kernels (KHO): network card and "
        "GPU get none of it, and some 9 GiB are missing",
        remedy=HANDOVER_REMEDY,
        source="NVIDIA/NV-Kernels#590, #591; MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#259",
        pattern=re.compile(r"ibv_reg_mr\w*\b.*(Cannot allocate memory|ENOMEM)"),
        sign=_kho,
    ),
    LogAilment(
        name="pcie-fault",
        cause="A PCIe device failed and Linux could not bring it back: mostly the ConnectX-7, "
        "under load and heat",
        remedy="Shut the Spark down and unplug it for a minute; if it recurs, cap the GPU's clock "
        "with `sudo nvidia-smi -lgc 0,2000` and give the Spark air on all sides",
        source="MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#146",
        pattern=re.compile(
            r"AER: .*(Uncorrect\w+ \(Fatal\)|recovery failed|can't recover)|"
            r"PCIe Bus Error: severity=Uncorrect\w+ \(Fatal\)"
        ),
    ),
    LogAilment(
        name="gpu-fault",
        cause="The GPU failed as hardware does: it fell off its bus, or its memory is damaged",
        remedy="Shut the Spark down, unplug it for a minute and start it again; if it recurs, it "
        "is a case for its seller: keep `sudo nvidia-bug-report.sh`'s file",
        source="NVIDIA's table of Xid errors; wtdcode/vllm-backport#62",
        pattern=re.compile(
            r"Xid\b(?: \(PCI:[\w:]+\))?:? (?:48|6[1234]|74|79|9[245]|1[12]0|119|149|154)\b|"
            r"caused by previous Xid (?:119|14\d|154)|fallen off the bus|uncorrectable ECC error|"
            r"RmInitAdapter failed"
        ),
    ),
    LogAilment(
        name="driver-mismatch",
        cause="The NVIDIA driver was updated while the old one is loaded",
        remedy="Reboot",
        source="NVIDIA/nvidia-container-toolkit#394; NVIDIA/nvidia-docker#182",
        pattern=re.compile(
            r"[Dd]river/library version mismatch|NVML/RM version mismatch|NVRM: API mismatch"
        ),
    ),
    LogAilment(
        name="driver-not-loaded",
        cause="The NVIDIA driver is not loaded: a kernel without its module, or Secure Boot "
        "refuses it",
        remedy="`sudo modprobe nvidia` says why. Without the module for `uname -r` boot the former "
        "kernel; where its key was rejected enrol it (`sudo mokutil --import`) or turn Secure "
        "Boot off",
        source="libnvidia-container's and nvidia-smi's words; timothystewart6/ubuntu-gb10",
        pattern=re.compile(
            r"driver not loaded|Key was rejected by service|Found no NVIDIA driver|"
            r"libnvidia-ml\.so\.1: cannot open shared object|Module nvidia not found|"
            r"load library failed: lib(cuda|nvidia)|"
            r"couldn't communicate with the NVIDIA driver"
        ),
    ),
    LogAilment(
        name="gpus-flag",
        cause="The container toolkit is in CDI mode and refuses Docker's --gpus",
        remedy="Run pyinfra again: engines ask by `--runtime nvidia` by now, as a container of "
        "your own may; or `sudo nvidia-ctk config --in-place --set "
        "nvidia-container-runtime.mode=legacy`",
        source="NVIDIA/xr-ai#249",
        pattern=re.compile(r"invoking the NVIDIA Container Runtime Hook directly"),
    ),
    LogAilment(
        name="cdi-device",
        cause="Docker finds no description of the GPU (CDI), or one of a former driver",
        remedy="`sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`, again after each "
        "change of the driver; `nvidia-ctk cdi list` shows it",
        source="NVIDIA/nvidia-container-toolkit#146; NVIDIA/NemoClaw#4733",
        pattern=re.compile(
            r"unresolvable CDI devices?|CDI device injection failed|stat CDI host device|"
            r"no known GPU vendor found|failed to fulfil mount request: open \S*lib(cuda|nvidia)"
        ),
    ),
    LogAilment(
        name="docker-without-nvidia",
        cause="Docker cannot give the GPU to a container: the NVIDIA runtime is missing",
        remedy="Run pyinfra again, which sets it up; by hand: `sudo nvidia-ctk runtime configure "
        "--runtime=docker && sudo systemctl restart docker`",
        source="docker/cli#2425; NVIDIA's playbook openshell",
        pattern=re.compile(
            r"could not select device driver|[Uu]nknown or invalid runtime name: nvidia|"
            r"The NVIDIA Driver was not detected"
        ),
    ),
    LogAilment(
        name="driver-too-old",
        cause="The image wants a newer NVIDIA driver than this Spark has",
        remedy="Take an image for the CUDA that `nvidia-smi` shows, as those of our recipes are. A "
        "newer driver comes with DGX OS: look before at the kernel that comes along, for "
        "7.0.0-1019 needs kho=off",
        source="ggml-org/llama.cpp#9665 shows the container toolkit's words; CUDA's errors 35, "
        "222, 803, 804",
        pattern=re.compile(
            r"unsatisfied condition: cuda>=|CUDA driver version is insufficient|"
            r"NVIDIA driver on your system is too old|compiled with an unsupported toolchain|"
            r"(?i:unsupported_?ptx_?version)|unsupported display driver / cuda driver|"
            r"forward compatibility was attempted|was built for NVIDIA Driver Release"
        ),
    ),
    LogAilment(
        name="gpu-lost",
        cause="The container has no GPU, or lost it as `systemctl daemon-reload` may make one do",
        remedy="Restart the engine: `sudo systemctl restart 'vllm@*'`; if it recurs, take CUDA_"
        "VISIBLE_DEVICES and NVIDIA_VISIBLE_DEVICES out of the recipe's `env`, and see whether "
        "`docker run --rm --runtime nvidia IMAGE nvidia-smi` shows the GPU",
        source="NVIDIA/nvidia-container-toolkit#1227; gorlak/sparky-cluster",
        pattern=re.compile(
            r"Failed to initialize NVML: Unknown Error|GPU is lost|"
            r"no CUDA-capable device is detected|device\(s\) is/are busy or unavailable|"
            r"No CUDA GPUs are available|Failed to infer device type"
        ),
    ),
    LogAilment(
        name="cuda-unknown-error",
        cause="CUDA does not start in the container, though the driver is loaded",
        remedy="`sudo modprobe -r nvidia_uvm && sudo modprobe nvidia_uvm` while no engine runs, "
        "else reboot; then try `docker run --rm --runtime nvidia IMAGE nvidia-smi`",
        source="NVIDIA/NemoClaw#4658; CUDA's error 999",
        pattern=re.compile(
            r"CUDA unknown error|CUDA_ERROR_UNKNOWN|cudaErrorUnknown|"
            r"[Ee]rror 999\b|cuda error: unknown|Cuda failure (999|'unknown error)|"
            r"nvml error: unknown error"
        ),
    ),
)
