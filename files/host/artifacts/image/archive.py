"""An image as Docker saves it: its identity, and the names and layers that Docker gets here."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from host.common.progress import JobError

BLOBS = "blobs/sha256/"
MANIFEST, INDEX, LAYOUT = "manifest.json", "index.json", "oci-layout"
# `repositories` holds names, as Docker has them for clients older than 2015.
TEXTS = (MANIFEST, INDEX, LAYOUT, "repositories")
_BLOB = re.compile(BLOBS + "([0-9a-f]{64})")


@dataclass(frozen=True)
class Saved:
    """One image, as far as Docker is told of it.

    Attributes:
        ids: The wanted names that it has: the digest of its configuration, and where Docker saves
            one, of its manifest or index. Which of them Docker calls it by, its store decides.
        texts: The files that tell Docker of it, path -> content. They give it no name: Docker would
            take the names in an archive from its owner's images.
    """

    ids: tuple[str, ...]
    texts: Mapping[str, bytes]


def is_blob(path: str) -> bool:
    """Tell whether a path is that of a blob: its name is the hash of its content."""
    return bool(_BLOB.fullmatch(path))


def read(texts: Mapping[str, bytes], blobs: Collection[str], wanted: Collection[str]) -> Saved:
    """Return which image an archive holds.

    A text is made only where a wanted digest vouches for all that Docker reads by it.

    Args:
        texts: The archive's own texts.
        blobs: Paths of its blobs, each of the content that its name says.
        wanted: The names that the image may have.

    Raises:
        JobError: It is not one image.
    """
    ids: list[str] = []
    made: dict[str, bytes] = {}
    try:
        (image,) = json.loads(texts[MANIFEST])
        config, layers = image["Config"], image["Layers"]
        for path in (config, *layers):
            if not is_blob(path) or path not in blobs:
                raise ValueError(f"no blob {str(path)[:200]!a}")
        if (digest := _digest(config)) in wanted:
            ids.append(digest)
            made |= _manifest(config, layers)
        if INDEX in texts:
            (found,) = json.loads(texts[INDEX])["manifests"]
            digest = found["digest"]
            if BLOBS + digest.removeprefix("sha256:") not in blobs:
                raise ValueError(f"no manifest {digest[:200]!a}")
            if digest in wanted:
                ids.append(digest)
                made |= _index(digest, found["mediaType"], found["size"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise refused(error) from None
    return Saved(tuple(ids), made)


def bundled(image: Mapping[str, Any]) -> Saved:
    """Return the names and layers that Docker gets for an image of a bundle.

    Args:
        image: `top` and `config`, digests; `layers`, digests from the lowest; `media_type` and
            `size` of what `top` names.
    """
    config, *layers = (
        BLOBS + digest.removeprefix("sha256:") for digest in (image["config"], *image["layers"])
    )
    index = _index(image["top"], image["media_type"], image["size"])
    return Saved((image["config"], image["top"]), _manifest(config, layers) | index)


def refused(error: Exception | str) -> JobError:
    """Return the error of a job whose archive is not one image."""
    reason = str(error) if type(error) in (str, ValueError) else repr(error)
    return JobError(
        f"What the other Spark sends is not one image as Docker saves it ({reason[:300]}): Docker "
        "has loaded nothing of it. Look at that Spark (`docker version` there: 25 or later), then "
        "run again."
    )


def _digest(path: str) -> str:
    return f"sha256:{path.removeprefix(BLOBS)}"


def _manifest(config: str, layers: Collection[str]) -> dict[str, bytes]:
    slim = {"Config": config, "RepoTags": None, "Layers": [*layers]}
    return {MANIFEST: json.dumps([slim]).encode()}


def _index(digest: str, media_type: str, size: int) -> dict[str, bytes]:
    entry = {"mediaType": media_type, "digest": digest, "size": size}
    return {
        INDEX: json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode(),
        LAYOUT: b'{"imageLayoutVersion": "1.0.0"}',
    }
