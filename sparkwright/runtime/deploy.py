"""Containers with the GPU in them: what DGX OS ships, completed where something is missing."""

from pyinfra.api import deploy

from sparkwright.common.paths import HOST_FILES
from sparkwright.host.deploy import users
from sparkwright.run.target import target
from sparkwright.runtime.operations import docker, gpu_in_container

_PROOF = HOST_FILES / "runtime" / "gpu_proof.py"


@deploy("Container runtime")
def apply() -> None:
    """Have the NVIDIA container toolkit, Docker that uses it, and a container with the GPU.

    `--data docker=restart` lets Docker end containers, for settings that take its start.
    """
    own = target()
    # The GPU is tried as the user of an engine.
    users()
    docker(
        name="Docker with the NVIDIA runtime",
        root=own.root,
        repository=own.settings.toolkit_repository,
        log_options=own.settings.docker_log_options,
        restart=own.options.docker == "restart",
        proxy=own.settings.proxy_variables,
    )
    gpu_in_container(name="GPU in a container", root=own.root, program=_PROOF.read_text("utf-8"))
