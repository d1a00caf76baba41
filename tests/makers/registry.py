"""An image for two processors, and a real registry that has it, on this machine's loopback."""

import hashlib
import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from sparkwright.plan.release.lock import ImageLock
from tests.clock import patience
from tests.lab.registry import serving

OCI = "application/vnd.oci.image.{}.v1+json"
PLATFORMS = {"arm64": b"small layer", "amd64": b"a somewhat larger layer"}


@pytest.fixture(autouse=True)
def only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    # A login of whoever runs the tests is theirs.
    monkeypatch.setenv("DOCKER_CONFIG", "/nonexistent")


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def manifest(kind: str, **content: Any) -> bytes:
    return json.dumps({"schemaVersion": 2, "mediaType": OCI.format(kind), **content}).encode()


def described(kind: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": digest(content), "size": len(content)}


# The manifests by processor, the index over them, and all blobs.
CONFIGS = {name: json.dumps({"os": "linux", "architecture": name}).encode() for name in PLATFORMS}
IMAGES = {
    name: manifest(
        "manifest",
        config=described(OCI.format("config"), CONFIGS[name]),
        layers=[described("application/octet-stream", layer)] * 2,
    )
    for name, layer in PLATFORMS.items()
}
SINGLE = IMAGES["arm64"]
INDEX = manifest(
    "index",
    manifests=[
        described(OCI.format("manifest"), image) | {"platform": json.loads(CONFIGS[name])}
        for name, image in IMAGES.items()
    ],
)
BLOBS = {digest(blob): blob for blob in (*CONFIGS.values(), *PLATFORMS.values())}


def locked(top: bytes, architecture: str) -> ImageLock:
    """What is known of the image for one processor that `top` is, or holds."""
    size = 2 * len(PLATFORMS[architecture])
    return ImageLock(digest=digest(top), config=digest(CONFIGS[architecture]), size=size)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Debian's docker-registry with `lab/many:1` (an index) and `lab/one:1` (arm64 alone)."""
    if shutil.which("docker-registry") is None:
        pytest.skip("docker-registry is not installed")
    with serving(tmp_path_factory.mktemp("registry"), writable=True) as url:
        for repository, top in (("lab/many", INDEX), ("lab/one", SINGLE)):
            push(f"{url}/v2/{repository}", top)
        yield url.removeprefix("http://")


def push(base: str, top: bytes) -> None:
    with requests.Session() as session:
        for name, blob in BLOBS.items():
            place = session.post(f"{base}/blobs/uploads/", timeout=patience()).headers["Location"]
            sent = session.put(place, params={"digest": name}, data=blob, timeout=patience())
            sent.raise_for_status()
        contents = {digest(image): image for image in IMAGES.values()} | {"1": top}
        for version, content in contents.items():
            kind = {"Content-Type": json.loads(content)["mediaType"]}
            url = f"{base}/manifests/{version}"
            session.put(url, data=content, headers=kind, timeout=patience()).raise_for_status()
