"""Images made without Docker, pushed to Debian's real docker-registry and fetched from it again."""

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import requests

from tests.clock import patience
from tests.lab import oci, registry
from tests.lab.state import LabError

pytestmark = pytest.mark.skipif(
    not (shutil.which("docker-registry") and shutil.which("zstd")),
    reason="needs Debian's docker-registry and zstd",
)
MANIFEST = {"Accept": "application/vnd.oci.image.manifest.v1+json"}


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    folder = tmp_path / "storage"
    folder.mkdir()
    return folder


@pytest.fixture
def layers(tmp_path: Path) -> list[oci.Layer]:
    root = tmp_path / "root"
    (root / "opt/big").mkdir(parents=True)
    (root / "etc").mkdir()
    (root / "etc/motd").write_text("hello\n")
    (root / "opt/big/data").write_bytes(bytes(range(256)) * 10_000)
    return [
        oci.pack(root, tmp_path / "base.tar.zst", "--exclude=./opt/big", "."),
        oci.pack(root, tmp_path / "big.tar.zst", "./opt/big"),
    ]


def push(url: str, layers: list[oci.Layer]) -> str:
    return oci.push(url, "some/image:1", layers, environment={"A": "b c"}, entrypoint=["/bin/x"])


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def test_what_was_pushed_can_be_fetched_by_tag_and_by_digest(
    storage: Path, layers: list[oci.Layer]
) -> None:
    with registry.serving(storage, writable=True) as url:
        digest = push(url, layers)
    with registry.serving(storage) as url:
        by_tag = requests.get(
            f"{url}/v2/some/image/manifests/1", headers=MANIFEST, timeout=patience()
        )
        by_digest = requests.get(
            f"{url}/v2/some/image/manifests/{digest}", headers=MANIFEST, timeout=patience()
        )
        blobs = [
            requests.get(f"{url}/v2/some/image/blobs/{blob['digest']}", timeout=patience()).content
            for blob in (by_tag.json()["config"], *by_tag.json()["layers"])
        ]
    assert by_tag.content == by_digest.content
    assert by_tag.headers["Docker-Content-Digest"] == digest == sha256(by_tag.content)
    assert [sha256(blob) for blob in blobs[1:]] == [layer.digest for layer in layers]
    assert [len(blob) for blob in blobs[1:]] == [layer["size"] for layer in by_tag.json()["layers"]]
    config = json.loads(blobs[0])
    assert config["config"] == {"Env": ["A=b c"], "Entrypoint": ["/bin/x"]}
    assert config["rootfs"]["diff_ids"] == [layer.content for layer in layers]


def test_layers_hold_each_file_once(tmp_path: Path, layers: list[oci.Layer]) -> None:
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    listed: list[str] = []
    for layer in layers:
        archive = subprocess.run(
            ["zstd", "-dc", str(layer.path)], capture_output=True, check=True
        ).stdout
        assert sha256(archive) == layer.content
        listed += (
            subprocess.run(
                ["tar", "-xvC", str(unpacked)], input=archive, capture_output=True, check=True
            )
            .stdout.decode()
            .splitlines()
        )
    files = [name for name in listed if not name.endswith("/")]
    assert sorted(files) == ["./etc/motd", "./opt/big/data"]
    assert (unpacked / "etc/motd").read_text() == "hello\n"
    assert (unpacked / "opt/big/data").stat().st_size == 2_560_000


def test_a_served_image_cannot_be_changed(storage: Path, layers: list[oci.Layer]) -> None:
    with registry.serving(storage, writable=True) as url:
        digest = push(url, layers)
    with registry.serving(storage) as url:
        with pytest.raises(requests.HTTPError, match="405"):
            push(url, layers)
        deleted = requests.delete(f"{url}/v2/some/image/manifests/{digest}", timeout=patience())
        assert deleted.status_code == 405
        kept = requests.get(
            f"{url}/v2/some/image/manifests/{digest}", headers=MANIFEST, timeout=patience()
        )
        assert kept.ok


def test_a_damaged_layer_is_refused(storage: Path, layers: list[oci.Layer]) -> None:
    layers[0].path.write_bytes(layers[0].path.read_bytes()[:-1] + b"?")
    with (
        registry.serving(storage, writable=True) as url,
        pytest.raises(requests.HTTPError, match="400"),
    ):
        push(url, layers)


def test_packing_what_is_not_there_fails(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="tar 2"):
        oci.pack(tmp_path / "missing", tmp_path / "x.tar.zst", ".")
