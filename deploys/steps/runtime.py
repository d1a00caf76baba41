"""Containers with the GPU in them: what DGX OS ships, completed where something is missing."""

from pathlib import Path

from pyinfra import host
from pyinfra.api import deploy

from deploys.operations.container_gpu import gpu_in_container
from deploys.operations.runtime import docker
from deploys.plan.data_options import chosen
from deploys.steps.context import bad_input

_PROOF = Path(__file__).parents[2] / "files" / "runtime" / "gpu_proof.py"


@deploy("Container runtime")
def apply() -> None:
    """Have the NVIDIA container toolkit, Docker that uses it, and a container with the GPU.

    `--data docker=restart` lets Docker end containers, for settings that take its start.
    """
    with bad_input():
        restart = chosen("docker", host.data.get("docker"))
    docker(
        name="Docker with the NVIDIA runtime",
        repository=host.data.toolkit_repository,
        log_options=host.data.docker_log_options,
        restart=restart,
    )
    gpu_in_container(name="GPU in a container", root=host.data.root, program=_PROOF.read_text())
