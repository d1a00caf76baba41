"""The known reasons why a container, or the host, does not get the GPU."""

from sparkwright.causes.cause import LogCause
from sparkwright.causes.platform_causes import PLATFORM_CAUSES

# Errors of files/host/runtime/gpu_proof.py; engines do not print these.
_OWN = (
    LogCause(
        name="runtime-brings-nothing",
        cause="The NVIDIA runtime ran but did not add the driver to the container",
        remedy="See `sudo nvidia-ctk config` and `docker info` (Runtimes): the runtime must be "
        "NVIDIA's, and must not be told to give nothing",
        source="files/host/runtime/gpu_proof.py",
        pattern=r"CUDA is not in the container|lists no GPU|/usr/bin/nvidia-smi",
    ),
    LogCause(
        name="driver-hangs",
        cause="The driver hangs",
        remedy="Reboot; `journalctl -k | grep -i -e nvrm -e xid` shows what it said",
        source="files/host/runtime/gpu_proof.py",
        pattern=r"no answer within",
    ),
)


def obstacle(output: str) -> LogCause | None:
    """Return the cause of an error of nvidia-smi, Docker or CUDA; None for an unknown one."""
    return next((each for each in (*PLATFORM_CAUSES, *_OWN) if each.evidence([output])), None)


def refusal(output: str) -> str:
    """Return the message that a container gets no GPU."""
    words = " ".join(output.split())
    known = obstacle(output)
    if known is None:
        return f"no container gets the GPU: {words}. `nvidia-smi` and `docker info` may tell more"
    return f"no container gets the GPU. {known.cause}. {known.remedy}. It was said: {words}"
