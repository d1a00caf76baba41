"""An engine's container: its GPU, its limits, and with what it was proved that both go together."""

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from deploys.plan.sections import sections, sections_script

# Docker's options that give a container the GPU. `--gpus`, which asks the toolkit's hook and not
# its runtime, fails on Sparks whose toolkit makes a list of devices (CDI), its way since 1.18
# (dusty-nv/jetson-containers#1703; NVIDIA/nvidia-container-toolkit#1910). ig1 and docai.hu name
# the runtime, too.
_GPU = ("--runtime", "nvidia", "--env", "NVIDIA_VISIBLE_DEVICES=all")

# What an engine may not. It needs no capability of root's, opens no port below 1024, and starts no
# program that changes its user. It writes into its home, /tmp and /dev/shm: compilers and Triton
# load what they have put into /tmp, so that must be executable. Bounds are for an engine gone wild,
# and far above a sound one: threads (one that compiles on 20 cores has about a thousand), bytes of
# /tmp, and of /dev/shm (NVIDIA's own start on a Spark has 16g, vLLM's run_cluster.sh 10.24g).
CONFINEMENT = (
    *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", "8192"),
    *("--read-only", "--tmpfs", "/tmp:rw,exec,nosuid,nodev,size=8g,mode=1777"),
    *("--ipc", "private", "--shm-size", "16g"),
)

# Both together are what an engine gets, and what proves the GPU before anything is fetched for it,
# or what serves is touched.
CONTAINER_OPTIONS = (*_GPU, *CONFINEMENT)


@dataclass(frozen=True)
class Proof:
    """With what the GPU in a container is to be proved, and with what it was.

    Attributes:
        now, proved: driver, toolkit, Docker and kernel, and how the GPU is asked for.
    """

    now: tuple[str, ...]
    proved: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Tell whether nothing has changed since."""
        return self.now == self.proved


def proof_script(root: str) -> str:
    """Return the POSIX shell script that reads what the proof depends on; it only reads.

    Args:
        root: the folder of everything on the Spark.
    """
    parts = {
        "now": "nvidia-smi --query-gpu=driver_version --format=csv,noheader; "
        "nvidia-ctk --version | head -n 1; docker version --format '{{.Server.Version}}'; uname -r",
        "proved": f"cat {shlex.quote(root)}/state/gpu",
    }
    return sections_script(parts)


def parse_proof(output: Iterable[str]) -> Proof:
    """Return what the script's output lines describe.

    Raises:
        ValueError: a section is missing.
    """
    found = sections(output)
    try:
        return Proof((*found["now"], " ".join(CONTAINER_OPTIONS)), tuple(found["proved"]))
    except KeyError as error:
        raise ValueError(f"found no section {error}") from error
