"""Downloads the parts of images from their registries, into the folder of a bundle."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from httpx2 import Client, HTTPError, Timeout

from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError
from sparkwright.release.bundle import BundledImage, blob
from sparkwright.release.lock import ImageLock
from sparkwright.release.resolve import (
    RegistryImage,
    check_proxies,
    content_digest,
    registry_architecture,
)

# Seconds to connect, and between two packets.
_TIMEOUT = Timeout(60, connect=10)
# Seconds before each further try that has brought nothing.
_DELAYS = (1, 2, 4, 8, 15, 30)
_CHUNK = 1024 * 1024


@dataclass(frozen=True)
class Part:
    """A part of an image: a file that is named by its content."""

    digest: str
    size: int


def image_parts(
    reference: str, locked: ImageLock, arch: str, client: Client
) -> tuple[BundledImage, dict[str, bytes], list[Part]]:
    """Ask a registry what an image consists of.

    Args:
        reference: `repository@sha256:…`.
        locked: The image in the lock.
        arch: Processor as ``uname -m`` prints it.

    Returns:
        What the bundle's index has of it, its manifests by digest, and what is to be downloaded.

    Raises:
        PlanError: It is not the image of the lock.
    """
    found = RegistryImage(reference, client).manifests(registry_architecture(arch))
    manifests = {content_digest(each): each for each in found}
    manifest = json.loads(found[-1])
    parts = [Part(each["digest"], each["size"]) for each in manifest["layers"]]
    config = Part(manifest["config"]["digest"], manifest["config"]["size"])
    size = sum(part.size for part in parts)
    if (config.digest, size) != (locked.config, locked.size):
        raise PlanError(
            f"{reference}: found an image of {config.digest}, {size} bytes; expected "
            f"{locked.config}, {locked.size} bytes, as in the lock. Look it up again: "
            f"{next_line('lock', '--refresh')}"
        )
    image = BundledImage(
        media_type=_media_type(json.loads(found[0])),
        top=locked.digest,
        manifests=list(manifests),
        config=config.digest,
        layers=[part.digest for part in parts],
    )
    return image, manifests, list(dict.fromkeys([config, *parts]))


def _media_type(top: dict[str, Any]) -> str:
    """Return the media type of a manifest or index; OCI's need not name it."""
    kind = "index" if "manifests" in top else "manifest"
    return str(top.get("mediaType") or f"application/vnd.oci.image.{kind}.v1+json")


def registry_client() -> Client:
    """Return a client for content of any size."""
    check_proxies()
    plain = {"Accept-Encoding": "identity"}
    return Client(follow_redirects=True, headers=plain, timeout=_TIMEOUT)


def download(image: RegistryImage, part: Part, folder: Path, seen: Callable[[int], None]) -> None:
    """Have a part of an image in a folder, going on where an earlier run has ended.

    Args:
        folder: Of images.
        seen: Is told of bytes that have come.

    Raises:
        PlanError: It cannot be had, or its content is another than its name says.
    """
    place = folder / blob(part.digest)
    if place.exists() and place.stat().st_size == part.size:
        seen(part.size)
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = place.with_name(f"{place.name}.part")
    digest = sha256()
    with partial.open("a+b") as file:
        file.seek(0)
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            seen(len(chunk))
        tries = 0
        while (begin := file.tell()) < part.size:
            try:
                with image.blob(part.digest, begin) as answer:
                    if begin and answer.status_code != 206:
                        file.truncate(0)
                        seen(-begin)
                        digest = sha256()
                    for chunk in answer.iter_bytes(_CHUNK):
                        if file.tell() + len(chunk) > part.size:
                            break
                        digest.update(chunk)
                        file.write(chunk)
                        seen(len(chunk))
            except (HTTPError, PlanError) as error:
                if file.tell() > begin:
                    tries = 0
                if tries == len(_DELAYS):
                    raise PlanError(
                        f"{image.reference}: no content of {part.digest} ({error}); run again, "
                        "which goes on where this ended"
                    ) from None
                time.sleep(_DELAYS[tries])
                tries += 1
    if f"sha256:{digest.hexdigest()}" != part.digest or partial.stat().st_size != part.size:
        partial.unlink()
        raise PlanError(
            f"{image.reference}: found another content than {part.digest}; expected that: run "
            "again, or take the image from another registry"
        )
    partial.replace(place)
