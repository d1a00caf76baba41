"""An engine's container: its confinement, its GPU, its image, the slices that guard its packets."""

import shlex
from collections.abc import Sequence

from sparkwright.common.files import ManagedFile
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.ports import ENGINE_PORTS
from sparkwright.common.render import unit_file
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.declared.recipe.values import DOMAINS

# Docker's options that give a container the GPU. `--gpus`, which uses the toolkit's hook instead of
# its runtime, fails on Sparks whose toolkit generates CDI specifications, its default since 1.18
# (dusty-nv/jetson-containers#1703; NVIDIA/nvidia-container-toolkit#1910). ig1 and docai.hu name
# the runtime, too.
_GPU = ("--runtime", "nvidia", "--env", "NVIDIA_VISIBLE_DEVICES=all")

# Docker's network of engines that may fetch media; `remove` finds it by its label.
MEDIA_NETWORK = "sparkwright"
NEW_MEDIA_NETWORK = (
    f"docker network create --label {MEDIA_NETWORK} "
    f"--opt com.docker.network.bridge.enable_icc=false {MEDIA_NETWORK} >/dev/null"
)

# The confinement of an engine, which runs as a user of its own, without rights. It needs no
# capability, opens no port below 1024, and starts no program that changes its user. The devices of
# GPU and RDMA are everybody's (0666, as NVIDIA's driver and rdma-core make them). It writes into
# its home, /tmp and /dev/shm; compilers and Triton load libraries from /tmp, which must be
# executable. The bounds are far above the needs of a healthy engine: threads (compiling on 20 cores
# takes about a thousand), bytes of /tmp, and of /dev/shm (NVIDIA's own start on a Spark has 16g,
# vLLM's run_cluster.sh 10.24g). It leaves no core dump, an image of its 40 GB and more; and it is
# what the kernel ends first in a full memory, as what its GPU has counts as nobody's.
CONFINEMENT = (
    *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", "8192"),
    *("--read-only", "--tmpfs", "/tmp:rw,exec,nosuid,nodev,size=8g,mode=1777"),
    *("--ipc", "private", "--shm-size", "16g"),
    *("--ulimit", "core=0", "--oom-score-adj", "500"),
)

# The options of engines, and of the container that proves the GPU before anything is fetched or
# switched.
CONTAINER_OPTIONS = (*_GPU, *CONFINEMENT)

# Neither is within the other, from which it would have what that allows: no dash.
ALONE, PAIR = "sparkwright.slice", "sparkwright_pair.slice"

# Where a group's engines may fetch media from the internet: all that is no address there (RFC 1918,
# 3927, 4193, 4291, 6598 and multicast), so that nobody sends them to a neighbour by a URL. It has
# the host's network: there it is the host itself, too, but for the resolver.
_NEIGHBOURS = (
    *("10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"),
    *("224.0.0.0/4", "fc00::/7", "fe80::/10", "ff00::/8"),
)
_HOST, _RESOLVER = "localhost", "127.0.0.53"
_FILES = HOST_FILES / "engine"


def network_of(recipe: Recipe, nodes: int) -> str:
    """Return Docker's network for an engine: one of its own, in which there is nothing else.

    Where its owner lets it fetch media, it is a bridge, by which it reaches no other container. A
    group's is the host's: its RDMA devices have their addresses there alone.
    """
    if nodes > 1:
        return "host"
    return MEDIA_NETWORK if DOMAINS in recipe.args else "none"


def slice_of(nodes: int) -> str:
    """Return the slice in which the container of a replica's engine runs."""
    return PAIR if nodes > 1 else ALONE


def guard_files(root: str, fabric: Sequence[str], *, internet: bool) -> list[ManagedFile]:
    """Return the files of the slices, systemd's, by which containers may exchange packets.

    Args:
        fabric: addresses of all Sparks of a group on the fabric; none for a Spark on its own.
        internet: engines may reach it, to fetch what clients name.
    """
    denied = " ".join(_NEIGHBOURS) if internet else "any"
    files = [unit_file(_FILES / ALONE, root=root, denied=denied)]
    if fabric:
        allowed = " ".join([*fabric, *[_RESOLVER] * internet])
        denied = f"{_HOST} {denied}" if internet else denied
        values = {"allowed": allowed, "denied": denied, "ports": ENGINE_PORTS}
        files.append(unit_file(_FILES / PAIR, root=root, **values))
    return files


def image_id(references: Sequence[str]) -> str:
    """Return the shell words that print the id of an image by the first name that Docker knows."""
    return (
        f"docker image inspect --format '{{{{.Id}}}}' {shlex.join(references)} 2>/dev/null "
        "| head -n 1"
    )
