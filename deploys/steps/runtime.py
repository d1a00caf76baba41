"""Containers with the GPU in them: what DGX OS ships, completed where something is missing."""

from pathlib import Path

from pyinfra.api import deploy

from deploys.operations.container_gpu import gpu_in_container
from deploys.operations.runtime import docker
from deploys.target import target

_PROOF = Path(__file__).parents[2] / "files" / "runtime" / "gpu_proof.py"


@deploy("Container runtime")
def apply() -> None:
    """Have the NVIDIA container toolkit, Docker that uses it, and a container with the GPU.

    `--data docker=restart` lets Docker end containers, for settings that take its start.
    """
    own = target()
    docker(
        name="Docker with the NVIDIA runtime",
        repository=own.settings.toolkit_repository,
        log_options=own.settings.docker_log_options,
        restart=own.options.docker == "restart",
    )
    gpu_in_container(name="GPU in a container", root=own.root, program=_PROOF.read_text())
