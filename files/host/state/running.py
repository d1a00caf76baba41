"""What runs on a Spark, where no operation compares: containers, GPU, packages and the kernel."""

from collections.abc import Sequence
from typing import Any

from host.state import docker, gpu
from host.state.containers import LABEL, image_id, running
from host.state.engines import current, engines
from host.state.machine import kernel
from host.state.readers import lines, run


def read(root: str, images: Sequence[str] = ()) -> dict[str, Any]:
    """Return what runs.

    Args:
        root: The folder of the seat.
        images: The names of the image of the declared release; none on an idle Spark.
    """
    found = [docker.get(f"/containers/{each['Id']}/json") for each in running()]
    return {
        "containers": {
            config["Labels"][LABEL]: {
                "image": container["Image"],
                "arguments": config["Cmd"] or [],
                "environment": config["Env"] or [],
            }
            # One that has ended meanwhile is there no more.
            for container in filter(None, found)
            for config in [container["Config"]]
        },
        "image": image_id(images),
        "held": lines("apt-mark", "showhold"),
        "kernel": kernel(),
        "gpu": gpu.read()["gpu"],
        "inside": nvidia_smi(root),
    }


def nvidia_smi(root: str) -> str:
    """Return what nvidia-smi says in the container of a seat's engine; "" where none runs."""
    release = current(root)
    if release is None or engines().get(release, {}).get("active") != "active":
        return ""
    done = run("docker", "exec", f"vllm-{release}", "nvidia-smi", "--list-gpus")
    return " ".join(f"{done.stdout} {done.stderr}".split())
