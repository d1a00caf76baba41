"""An image as Docker saves it, unpacked to a folder."""

import json
from pathlib import Path


def is_built(name: str) -> bool:
    """Whether an image was built on a Spark: one of a registry is named by its digest."""
    return "@" not in name


def image_ids(folder: Path) -> list[str]:
    """Return what Docker may call the image: its stores name it in one of two ways.

    Args:
        folder: where it is unpacked.

    Returns:
        The digests of its configuration and, where Docker saves one, of its manifest.
    """
    (image,) = json.loads((folder / "manifest.json").read_text())
    config = image["Config"].rpartition("/")[2].removesuffix(".json")
    index = folder / "index.json"
    manifests = json.loads(index.read_text())["manifests"] if index.exists() else []
    return [f"sha256:{config}", *(manifest["digest"] for manifest in manifests)]
