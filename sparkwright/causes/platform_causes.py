"""Causes below the engine: kernel, driver, PCIe, container runtime."""

from sparkwright.causes.cause import APPLY, CLOCK_REMEDY, UNPLUG_REMEDY, LogCause
from sparkwright.host.kernel import HANDOVER_REMEDY

PLATFORM_CAUSES = (
    LogCause(
        name="kernel-kho",
        cause="The kernel reserves some 9 GiB for kexec handover (KHO), which network card and "
        "GPU cannot use",
        remedy=HANDOVER_REMEDY,
        source="NVIDIA/NV-Kernels#590, #591; MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#259",
        pattern=r"ibv_reg_mr\w*\b.*(Cannot allocate memory|ENOMEM)",
    ),
    LogCause(
        name="pcie-fault",
        cause="A PCIe device failed and Linux could not recover it: usually the ConnectX-7, "
        "under load and heat",
        remedy=f"{UNPLUG_REMEDY}; if it recurs, {CLOCK_REMEDY} and give the Spark air on all sides",
        source="MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#146",
        pattern=r"AER: .*(Uncorrect\w+ \(Fatal\)|recovery failed|can't recover)|"
        r"PCIe Bus Error: severity=Uncorrect\w+ \(Fatal\)",
    ),
    LogCause(
        name="gpu-fault",
        cause="GPU hardware failure: it fell off the bus, or its memory is damaged",
        remedy=f"{UNPLUG_REMEDY}; if it recurs, contact the vendor with the file from `sudo "
        "nvidia-bug-report.sh`",
        source="NVIDIA's table of Xid errors; wtdcode/vllm-backport#62",
        pattern=r"Xid\b(?: \(PCI:[\w:]+\))?:? (?:48|6[1234]|74|79|9[245]|1[12]0|119|149|154)\b|"
        r"caused by previous Xid (?:119|14\d|154)|fallen off the bus|uncorrectable ECC error|"
        r"RmInitAdapter failed",
    ),
    LogCause(
        name="driver-mismatch",
        cause="The NVIDIA driver was updated while the old one is loaded",
        remedy="Reboot",
        source="NVIDIA/nvidia-container-toolkit#394; NVIDIA/nvidia-docker#182",
        pattern=r"[Dd]river/library version mismatch|NVML/RM version mismatch|NVRM: API mismatch",
    ),
    LogCause(
        name="driver-not-loaded",
        cause="The NVIDIA driver is not loaded: the kernel has no module for it, or Secure Boot "
        "rejects it",
        remedy="`sudo modprobe nvidia` says why. Without the module for `uname -r` boot the former "
        "kernel; where its key was rejected enrol it (`sudo mokutil --import`) or turn Secure "
        "Boot off",
        source="libnvidia-container's and nvidia-smi's words; timothystewart6/ubuntu-gb10",
        pattern=r"driver not loaded|Key was rejected by service|Found no NVIDIA driver|"
        r"libnvidia-ml\.so\.1: cannot open shared object|Module nvidia not found|"
        r"load library failed: lib(cuda|nvidia)|"
        r"couldn't communicate with the NVIDIA driver",
    ),
    LogCause(
        name="gpus-flag",
        cause="The container toolkit is in CDI mode, which does not support Docker's --gpus",
        remedy=f"{APPLY}: engines now use `--runtime nvidia`, which your own containers "
        "can use too. Or: `sudo nvidia-ctk config --in-place --set "
        "nvidia-container-runtime.mode=legacy`",
        source="NVIDIA/xr-ai#249",
        pattern=r"invoking the NVIDIA Container Runtime Hook directly",
    ),
    LogCause(
        name="cdi-device",
        cause="Docker finds no description of the GPU (CDI), or one of a former driver",
        remedy="`sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml`, again after each "
        "change of the driver; `nvidia-ctk cdi list` shows it",
        source="NVIDIA/nvidia-container-toolkit#146; NVIDIA/NemoClaw#4733",
        pattern=r"unresolvable CDI devices?|CDI device injection failed|stat CDI host device|"
        r"no known GPU vendor found|failed to fulfil mount request: open \S*lib(cuda|nvidia)",
    ),
    LogCause(
        name="docker-without-nvidia",
        cause="Docker cannot give the GPU to a container: the NVIDIA runtime is missing",
        remedy=f"{APPLY} sets it up; by hand: `sudo nvidia-ctk runtime configure "
        "--runtime=docker && sudo systemctl restart docker`",
        source="docker/cli#2425; NVIDIA's playbook openshell",
        pattern=r"could not select device driver|[Uu]nknown or invalid runtime name: nvidia|"
        r"The NVIDIA Driver was not detected",
    ),
    LogCause(
        name="driver-too-old",
        cause="The image wants a newer NVIDIA driver than this Spark has",
        remedy="Use an image for the CUDA version that `nvidia-smi` shows, as our recipes do. A "
        "newer driver comes with a DGX OS update; check its kernel first: 7.0.0-1019 "
        "needs kho=off",
        source="ggml-org/llama.cpp#9665 shows the container toolkit's words; CUDA's errors 35, "
        "222, 803, 804",
        pattern=r"unsatisfied condition: cuda>=|CUDA driver version is insufficient|"
        r"NVIDIA driver on your system is too old|compiled with an unsupported toolchain|"
        r"(?i:unsupported_?ptx_?version)|unsupported display driver / cuda driver|"
        r"forward compatibility was attempted|was built for NVIDIA Driver Release",
    ),
    LogCause(
        name="gpu-lost",
        cause="The container has no GPU, or lost it; `systemctl daemon-reload` can cause that",
        remedy="Restart the engine: `sudo systemctl restart 'vllm@*'`; if it recurs, remove "
        "CUDA_VISIBLE_DEVICES and NVIDIA_VISIBLE_DEVICES from the recipe's `env`, and see "
        "whether `docker run --rm --runtime nvidia IMAGE nvidia-smi` shows the GPU",
        source="NVIDIA/nvidia-container-toolkit#1227; gorlak/sparky-cluster",
        pattern=r"Failed to initialize NVML: Unknown Error|GPU is lost|"
        r"no CUDA-capable device is detected|device\(s\) is/are busy or unavailable|"
        r"No CUDA GPUs are available|Failed to infer device type",
    ),
    LogCause(
        name="cuda-unknown-error",
        cause="CUDA does not start in the container, though the driver is loaded",
        remedy="`sudo modprobe -r nvidia_uvm && sudo modprobe nvidia_uvm` while no engine runs, "
        "else reboot; then try `docker run --rm --runtime nvidia IMAGE nvidia-smi`",
        source="NVIDIA/NemoClaw#4658; CUDA's error 999",
        pattern=r"CUDA unknown error|CUDA_ERROR_UNKNOWN|cudaErrorUnknown|"
        r"[Ee]rror 999\b|cuda error: unknown|Cuda failure (999|'unknown error)|"
        r"nvml error: unknown error",
    ),
)
