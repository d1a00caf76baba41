"""Have an image, known by its digest."""

import json
from collections.abc import Generator

from pyinfra import host
from pyinfra.api import operation
from pyinfra.api.command import PyinfraCommand

from deploys.facts.jobs import ImageState, JobState
from deploys.operations.jobs import follow, put_manifest, reason, start
from deploys.operations.messages import failing


@operation()
def image(root: str, image: str, size: int) -> Generator[PyinfraCommand]:
    """Have Docker hold an image; a unit on the Spark pulls it, and goes on without a connection.

    Args:
        image: `repository@sha256:…`.
        size: compressed bytes of its layers, to show how far the pull is.
    """
    found = host.get_fact(ImageState, image=image)
    if found == "present":
        host.noop(f"Docker has {image}")
        return
    if found != "absent":
        yield failing(f"Docker does not answer: {found}. Start it: sudo systemctl start docker")
        return
    job = f"image@{image.partition('@sha256:')[2][:12]}"
    last: dict[str, JobState] = {}
    yield from put_manifest(root, job, job, json.dumps({"image": image, "size": size}) + "\n")
    yield start(job)
    yield follow(root, [job], last)
    if host.get_fact(ImageState, image=image) != "present":
        yield failing(reason(job, last[job]))
