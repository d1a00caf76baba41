"""Containers with the GPU in them: what DGX OS ships, completed where something is missing."""

from pyinfra import host
from pyinfra.api import deploy

from deploys.operations.runtime import docker, toolkit


@deploy("Container runtime")
def apply() -> None:
    """Have the NVIDIA container toolkit, and Docker that uses it and bounds its logs."""
    repository = host.data.toolkit_repository
    toolkit(name="NVIDIA container toolkit", repository=repository)
    docker(
        name="Docker with the NVIDIA runtime",
        repository=repository,
        log_options=host.data.docker_log_options,
    )
