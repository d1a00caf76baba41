"""Downloads the parts of images from their registries, into the folder of a bundle."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sparkwright.common.errors import PlanError
from sparkwright.common.progress import JobProgress, ProgressLines
from sparkwright.release.bundle import BundledImage, blob
from sparkwright.release.registry import RegistryImage, content_digest, registry_architecture
from sparkwright.release.web import Client, look_up

# Seconds before each further try that has brought nothing.
_DELAYS = (1, 2, 4, 8, 15, 30)
_CHUNK = 1024 * 1024


def fetch_image(
    reference: str, arch: str, folder: Path, say: Callable[[str], None]
) -> BundledImage:
    """Have the parts of an image in a folder; what is there is not asked for again.

    Docker is not needed for that, and the image may be for another processor than this machine's.

    Args:
        reference: `repository@sha256:…`.
        arch: Processor as ``uname -m`` prints it.
        say: Is told how far it has come.

    Raises:
        PlanError: A part cannot be had. Whether it is the right one, the bundle's index will show.
    """

    def ask(client: Client) -> list[bytes]:
        return RegistryImage(reference, client).manifests(registry_architecture(arch))

    manifests = look_up(ask, reference, "registry", "manifest", "the image's name")
    for content in manifests:
        place = folder / blob(content_digest(content))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    manifest = json.loads(manifests[-1])
    config, layers = manifest["config"], manifest["layers"]
    sizes = {part["digest"]: part["size"] for part in (config, *layers)}
    lines = ProgressLines(lambda line: say(f"image {reference}: {line}"))
    image, done, total = RegistryImage(reference, Client()), 0, sum(sizes.values())
    for digest, size in sizes.items():
        for come in fetch_part(image, digest, size, folder / blob(digest)):
            lines.show(JobProgress("downloading", done + come, total, ""))
        done += size
    top = json.loads(manifests[0])
    kind = "index" if "manifests" in top else "manifest"
    return BundledImage(
        # OCI's need not name it.
        media_type=top.get("mediaType") or f"application/vnd.oci.image.{kind}.v1+json",
        top=content_digest(manifests[0]),
        manifests=[content_digest(content) for content in manifests],
        config=config["digest"],
        layers=[layer["digest"] for layer in layers],
    )


def fetch_part(image: RegistryImage, digest: str, size: int, place: Path) -> Iterator[int]:
    """Have a part of an image in a file, going on where an earlier run has ended.

    Yields how many bytes are there.

    Raises:
        PlanError: It cannot be had.
    """
    if place.exists():
        return
    partial, tries = place.with_name(f"{place.name}.part"), 0
    with partial.open("ab") as file:
        while (begin := file.tell()) < size:
            try:
                with image.blob(digest, begin) as answer:
                    if answer.status_code == 200:
                        file.truncate(0)
                        file.seek(0)
                    for chunk in answer.iter_content(_CHUNK):
                        file.write(chunk[: size - file.tell()])
                        yield file.tell()
            except (OSError, PlanError) as error:
                tries = 0 if file.tell() > begin else tries + 1
                if tries > len(_DELAYS):
                    raise PlanError(
                        f"{image.reference}: no content of {digest} ({error}); run again, which "
                        "goes on where this ended"
                    ) from None
                time.sleep(_DELAYS[max(0, tries - 1)])
    partial.replace(place)
