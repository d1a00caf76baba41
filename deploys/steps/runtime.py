"""Containers with the GPU in them: what DGX OS ships, completed where something is missing."""

from pyinfra import host
from pyinfra.api import deploy

from deploys.operations.runtime import docker


@deploy("Container runtime")
def apply() -> None:
    """Have the NVIDIA container toolkit, and Docker that uses it and bounds its logs."""
    docker(
        name="Docker with the NVIDIA runtime",
        repository=host.data.toolkit_repository,
        log_options=host.data.docker_log_options,
    )
