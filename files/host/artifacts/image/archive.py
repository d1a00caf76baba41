"""An image as Docker saves it: what tells Docker here which layers it has."""

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from host.common.progress import JobError

BLOBS = "blobs/sha256/"
MANIFEST, INDEX, LAYOUT = "manifest.json", "index.json", "oci-layout"
# `repositories` holds names, as Docker has them for clients older than 2015.
TEXTS = (MANIFEST, INDEX, LAYOUT, "repositories")
_BLOB = re.compile(BLOBS + "([0-9a-f]{64})")


def is_blob(path: str) -> bool:
    """Tell whether a path is that of a blob: its name is the hash of its content."""
    return bool(_BLOB.fullmatch(path))


def vouched(
    texts: Mapping[str, bytes], blobs: Collection[str], wanted: Collection[str]
) -> dict[str, bytes]:
    """Return the texts by which Docker gets a wanted image, by path; none if it is another.

    A text is made only where a wanted digest vouches for all that Docker reads by it: that of the
    image's configuration, or of its manifest or index. It gives no name, as Docker would take that
    from its owner's images.

    Args:
        texts: The archive's own texts.
        blobs: Paths of its blobs, each of the content that its name says.

    Raises:
        JobError: It is not one image.
    """
    made: dict[str, bytes] = {}
    try:
        (image,) = json.loads(texts[MANIFEST])
        config, layers = image["Config"], image["Layers"]
        for path in (config, *layers):
            if not is_blob(path) or path not in blobs:
                raise ValueError(f"no blob {str(path)[:200]!a}")
        if f"sha256:{config.removeprefix(BLOBS)}" in wanted:
            made |= manifest(config, layers)
        if INDEX in texts:
            (found,) = json.loads(texts[INDEX])["manifests"]
            digest = found["digest"]
            if BLOBS + digest.removeprefix("sha256:") not in blobs:
                raise ValueError(f"no manifest {digest[:200]!a}")
            if digest in wanted:
                made |= index(digest, found["mediaType"], found["size"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise refused(error) from None
    return made


def refused(error: Exception | str) -> JobError:
    """Return the error of a job whose archive is not one image."""
    reason = str(error) if type(error) in (str, ValueError) else repr(error)
    return JobError(
        f"What the other Spark sends is not one image as Docker saves it ({reason[:300]}): Docker "
        "has loaded nothing of it. Look at that Spark (`docker version` there: 25 or later), then "
        "run again."
    )


def manifest(config: str, layers: Collection[str]) -> dict[str, bytes]:
    """Return the text by which Docker's older store gets an image, from its paths."""
    slim = {"Config": config, "RepoTags": None, "Layers": [*layers]}
    return {MANIFEST: json.dumps([slim]).encode()}


def index(digest: str, media_type: Any, size: Any) -> dict[str, bytes]:
    """Return the texts by which Docker's newer store gets an image, from its manifest or index."""
    entry = {"mediaType": media_type, "digest": digest, "size": size}
    return {
        INDEX: json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode(),
        LAYOUT: b'{"imageLayoutVersion": "1.0.0"}',
    }
