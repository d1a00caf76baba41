"""An image for two processors, and a real registry that has it, on this machine's loopback."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from sparkwright.plan.release.lock import ImageLock
from tests.clock import patience
from tests.component.servers import free_port, until

OCI = "application/vnd.oci.image.{}.v1+json"
PLATFORMS = {"arm64": b"small layer", "amd64": b"a somewhat larger layer"}


@pytest.fixture(autouse=True)
def only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    # A login of whoever runs the tests is theirs.
    monkeypatch.setenv("DOCKER_CONFIG", "/nonexistent")


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def manifests() -> tuple[dict[str, bytes], bytes, bytes, dict[str, bytes]]:
    """Two images and the index over them: manifests by processor, the index, all blobs."""
    images: dict[str, bytes] = {}
    blobs: dict[str, bytes] = {}
    for architecture, layer in PLATFORMS.items():
        config = json.dumps({"os": "linux", "architecture": architecture}).encode()
        blobs |= {digest(config): config, digest(layer): layer}
        images[architecture] = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": OCI.format("manifest"),
                "config": described(OCI.format("config"), config),
                "layers": [described("application/octet-stream", layer)] * 2,
            }
        ).encode()
    index = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": OCI.format("index"),
            "manifests": [
                described(OCI.format("manifest"), manifest)
                | {"platform": {"os": "linux", "architecture": architecture}}
                for architecture, manifest in images.items()
            ],
        }
    ).encode()
    return images, index, images["arm64"], blobs


def described(kind: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": digest(content), "size": len(content)}


IMAGES, INDEX, SINGLE, BLOBS = manifests()


def locked(top: bytes, architecture: str) -> ImageLock:
    """What is known of the image for one processor that `top` is, or holds."""
    config = json.loads(IMAGES[architecture])["config"]["digest"]
    size = 2 * len(PLATFORMS[architecture])
    return ImageLock(digest=digest(top), config=config, size=size)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Debian's docker-registry with `lab/many:1` (an index) and `lab/one:1` (arm64 alone)."""
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip("docker-registry is not installed")
    folder, address = tmp_path_factory.mktemp("registry"), f"127.0.0.1:{free_port()}"
    config = {
        "version": 0.1,
        "storage": {"filesystem": {"rootdirectory": str(folder / "data")}},
        "http": {"addr": address},
        "log": {"level": "error", "accesslog": {"disabled": True}},
    }
    (folder / "config.yml").write_text(json.dumps(config))
    with subprocess.Popen(
        [program, "serve", folder / "config.yml"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            until(lambda: answers(f"http://{address}/v2/"))
            for repository in ("lab/many", "lab/one"):
                push(address, repository)
            yield address
        finally:
            process.terminate()


def answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=patience()).ok
    except requests.RequestException:
        return False


def push(address: str, repository: str) -> None:
    base = f"http://{address}/v2/{repository}"
    for name, blob in BLOBS.items():
        start = requests.post(f"{base}/blobs/uploads/", timeout=patience())
        place = start.headers["Location"]
        requests.put(
            place, params={"digest": name}, data=blob, timeout=patience()
        ).raise_for_status()
    contents = {digest(manifest): manifest for manifest in IMAGES.values()}
    contents["1"] = INDEX if repository == "lab/many" else SINGLE
    for version, content in contents.items():
        kind = json.loads(content)["mediaType"]
        url = f"{base}/manifests/{version}"
        headers = {"Content-Type": kind}
        requests.put(url, data=content, headers=headers, timeout=patience()).raise_for_status()
