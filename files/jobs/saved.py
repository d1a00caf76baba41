"""An image as Docker saves it, unpacked to a folder, and what of that another Spark may say."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from progress import Stop

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
    """One image.

    Attributes:
        ids: what Docker may call it, as its stores name it in one of two ways: the digests of its
            configuration and, where Docker saves one, of its manifest or index.
        plain: the configuration is the only one that can be reached.
        texts: the files that tell Docker of it, path -> content. They give it no name: those that
            an archive brings, Docker would take from its owner's images.
    """

    ids: tuple[str, ...]
    plain: bool
    texts: Mapping[str, bytes]

    def is_one_of(self, wanted: Collection[str]) -> bool:
        """Tell whether these names of images vouch for all of it: each is a hash of content."""
        config, *entry = self.ids
        return any(digest in wanted for digest in entry) or (self.plain and config in wanted)


def is_built(name: str) -> bool:
    """Tell whether an image was built on a Spark: one of a registry is named by its digest."""
    return "@" not in name


def listed(text: bytes) -> dict[str, dict[str, Any]]:
    """Return the files of an image export, {path: {"size", "sha256"}}, by the share's word.

    Raises:
        Stop: these are not the files of an image; what is listed would be written to the disk.
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


def read(folder: Path, files: Collection[str]) -> Saved:
    """Read which image stands in a folder.

    Args:
        folder: where it is unpacked.
        files: the paths of its files, each of the content that its name or `listed` says.

    Raises:
        Stop: it is not one image.
    """
    try:
        (image,) = json.loads((folder / MANIFEST).read_bytes())
        config, layers = image["Config"], image["Layers"]
        for path in (config, *layers):
            if not _BLOB.fullmatch(path) or path not in files:
                raise ValueError(f"{MANIFEST} names {str(path)[:200]!a}")
        slim = [{"Config": config, "RepoTags": None, "Layers": layers}]
        ids, plain, texts = [_digest(config)], True, {MANIFEST: json.dumps(slim).encode()}
        if INDEX in files:
            (found,) = json.loads((folder / INDEX).read_bytes())["manifests"]
            entry = {key: found[key] for key in ("mediaType", "digest", "size")}
            configs, plain = _configs(folder, entry["digest"], files)
            if ids[0] not in configs:
                raise ValueError(f"{MANIFEST} and {INDEX} name two images")
            ids.append(entry["digest"])
            texts[INDEX] = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
            texts[LAYOUT] = b'{"imageLayoutVersion": "1.0.0"}'
        return Saved(tuple(ids), plain, texts)
    except (ValueError, TypeError, KeyError, AttributeError, OSError, RecursionError) as error:
        raise _refused(error) from None


def _configs(folder: Path, digest: str, files: Collection[str]) -> tuple[set[str], bool]:
    """Return the configurations that a manifest or an index leads to, and whether it is the former.

    An index has one manifest a platform, of which those that were not saved are left out.
    """
    manifest = _manifest(folder, digest)
    if "config" in manifest:
        return {manifest["config"]["digest"]}, True
    inner = {entry["digest"] for entry in manifest["manifests"]}
    saved = [_manifest(folder, each) for each in inner if BLOBS + each[len("sha256:") :] in files]
    return {each["config"]["digest"] for each in saved}, False


def _manifest(folder: Path, digest: str) -> Any:
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"a manifest {digest[:80]!a}")
    file = folder / BLOBS / digest.removeprefix("sha256:")
    if file.stat().st_size > LARGEST_TEXT:
        raise ValueError(f"a manifest of {file.stat().st_size:,} bytes")
    return json.loads(file.read_bytes(), object_pairs_hook=_unambiguous)


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON that Docker reads alike: to Go, `Config` is `config`."""
    keys = {key.casefold() for key, _ in pairs}
    if len(keys) < len(pairs) or {"config", "manifests"} <= keys:
        raise ValueError("a manifest of two meanings")
    return dict(pairs)


def _digest(path: str) -> str:
    return f"sha256:{path.removeprefix(BLOBS)}"


def _refused(error: Exception) -> Stop:
    reason = str(error) if type(error) is ValueError else repr(error)
    return Stop(
        f"What the other Spark lends is not one image as Docker saves it ({reason[:300]}): Docker "
        "was given nothing of it. Look at that Spark (`docker version` there: 25 or later), then "
        "run again."
    )
