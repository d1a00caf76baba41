"""An image as Docker saves it, unpacked to a folder, and what of that another Spark may say."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from host.common.progress import JobError

BLOBS = "blobs/sha256/"
MANIFEST, INDEX, LAYOUT = "manifest.json", "index.json", "oci-layout"
# `repositories` holds names, as Docker has them for clients older than 2015.
_TEXTS = (MANIFEST, INDEX, LAYOUT, "repositories")
_BLOB = re.compile(BLOBS + "([0-9a-f]{64})")
_DIGEST = re.compile("sha256:[0-9a-f]{64}")
# Bytes of a JSON file, and files of an image: many times what the largest images have (a layer is
# a file or two, and Docker allows 127 of them).
LARGEST_TEXT = 4 * 1024 * 1024
MOST_FILES = 1000


@dataclass(frozen=True)
class Saved:
    """One image, as far as Docker is told of it.

    Attributes:
        ids: those of the wanted names that it has: the digest of its configuration, and where
            Docker saves one, of its manifest or index. Which of them Docker calls it by, its store
            decides.
        texts: the files that tell Docker of it, path -> content. They give it no name: those that
            an archive brings, Docker would take from its owner's images.
    """

    ids: tuple[str, ...]
    texts: Mapping[str, bytes]


def is_built(name: str) -> bool:
    """Tell whether an image was built on a Spark: one of a registry is named by its digest."""
    return "@" not in name


def listed(text: bytes) -> dict[str, dict[str, Any]]:
    """Return the files of an image export, {path: {"size", "sha256"}}, by the share's word.

    Raises:
        JobError: these are not the files of an image; what is listed would be written to the disk.
    """
    try:
        files: Any = json.loads(text)["files"]
        if not 0 < len(files) <= MOST_FILES:
            raise ValueError(f"{len(files)} files")
        return {path: _listed(path, file) for path, file in files.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise _refused(error) from None


def _listed(path: str, file: Mapping[str, Any]) -> dict[str, Any]:
    blob = _BLOB.fullmatch(path)
    size, digest = file["size"], file["sha256"]
    if not blob and path not in _TEXTS:
        raise ValueError(f"a file {path[:200]!a}")
    if type(size) is not int or not 0 <= size <= (2**63 if blob else LARGEST_TEXT):
        raise ValueError(f"{str(size)[:30]} bytes of {path}")
    if not _DIGEST.fullmatch(f"sha256:{digest}") or (blob and blob[1] != digest):
        raise ValueError(f"{path} with the hash {str(digest)[:80]!a}")
    return {"size": size, "sha256": digest}


def read(folder: Path, files: Collection[str], wanted: Collection[str]) -> Saved:
    """Read which image stands in a folder.

    A text is made only where a wanted digest vouches for all that Docker reads by it.

    Args:
        folder: where it is unpacked.
        files: the paths of its files, each of the content that its name or `listed` says.
        wanted: the names that it may have.

    Raises:
        JobError: it is not one image.
    """
    ids: list[str] = []
    texts: dict[str, bytes] = {}
    try:
        (image,) = json.loads((folder / MANIFEST).read_bytes())
        config = _digest(image["Config"], files)
        slim = {"Config": image["Config"], "RepoTags": None, "Layers": image["Layers"]}
        for layer in image["Layers"]:
            _digest(layer, files)
        if config in wanted:
            ids.append(config)
            texts[MANIFEST] = json.dumps([slim]).encode()
        if INDEX in files:
            (found,) = json.loads((folder / INDEX).read_bytes())["manifests"]
            digest = _digest(BLOBS + found["digest"].removeprefix("sha256:"), files)
            if digest in wanted:
                ids.append(digest)
                entry = {"mediaType": found["mediaType"], "digest": digest, "size": found["size"]}
                texts[INDEX] = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
                texts[LAYOUT] = b'{"imageLayoutVersion": "1.0.0"}'
    except (ValueError, TypeError, KeyError, AttributeError, OSError, RecursionError) as error:
        raise _refused(error) from None
    return Saved(tuple(ids), texts)


def bundled(image: Mapping[str, Any]) -> Saved:
    """Return the manifest by which Docker loads an image that a bundle has brought.

    The two stores of Docker know it by its configuration, or by its manifest or index.

    Args:
        image: `top` and `config`, digests; `layers`, digests from the lowest; `media_type` and
            `size` of what `top` names.
    """
    layers = [BLOBS + layer.removeprefix("sha256:") for layer in image["layers"]]
    config = BLOBS + image["config"].removeprefix("sha256:")
    slim = {"Config": config, "RepoTags": None, "Layers": layers}
    entry = {"mediaType": image["media_type"], "digest": image["top"], "size": image["size"]}
    return Saved(
        (image["config"], image["top"]),
        {
            MANIFEST: json.dumps([slim]).encode(),
            INDEX: json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode(),
            LAYOUT: b'{"imageLayoutVersion": "1.0.0"}',
        },
    )


def _digest(path: str, files: Collection[str]) -> str:
    if not _BLOB.fullmatch(path) or path not in files:
        raise ValueError(f"no blob {str(path)[:200]!a}")
    return f"sha256:{path.removeprefix(BLOBS)}"


def _refused(error: Exception) -> JobError:
    reason = str(error) if type(error) is ValueError else repr(error)
    return JobError(
        f"What the other Spark lends is not one image as Docker saves it ({reason[:300]}): Docker "
        "was given nothing of it. Look at that Spark (`docker version` there: 25 or later), then "
        "run again."
    )
