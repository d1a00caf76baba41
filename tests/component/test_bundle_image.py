"""The parts of an image from a real registry into a bundle: whole, continued, or refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from httpx2 import Client

from sparkwright.bundle.images import Part, download, image_parts, registry_client
from sparkwright.common.errors import PlanError
from sparkwright.release.bundle import blob
from sparkwright.release.resolve import RegistryImage
from tests.component.test_resolve_image import (
    IMAGES,
    INDEX,
    PLATFORMS,
    SINGLE,
    digest,
    locked,
    only_loopback,
    registry,
)

__all__ = ["only_loopback", "registry"]

LAYER = PLATFORMS["arm64"]
PART = Part(digest(LAYER), len(LAYER))


@pytest.fixture
def client() -> Iterator[Client]:
    with registry_client() as client:
        yield client


@pytest.fixture
def image(registry: str, client: Client) -> RegistryImage:
    return RegistryImage(f"{registry}/lab/many@{digest(INDEX)}", client)


def test_an_index_and_the_manifest_for_one_processor(image: RegistryImage, client: Client) -> None:
    lock = locked(INDEX, "amd64")
    found, manifests, parts = image_parts(image.reference, lock, "x86_64", client)
    assert manifests == {digest(INDEX): INDEX, digest(IMAGES["amd64"]): IMAGES["amd64"]}
    assert (found.top, found.config) == (lock.digest, lock.config)
    assert found.media_type == "application/vnd.oci.image.index.v1+json"
    assert {part.digest for part in parts} == {lock.config, digest(PLATFORMS["amd64"])}


def test_a_single_manifest(registry: str, client: Client) -> None:
    reference = f"{registry}/lab/one@{digest(SINGLE)}"
    found, manifests, _ = image_parts(reference, locked(SINGLE, "arm64"), "aarch64", client)
    assert manifests == {digest(SINGLE): SINGLE}
    assert found.manifests == [digest(SINGLE)]


def test_another_image_than_that_of_the_lock(image: RegistryImage, client: Client) -> None:
    with pytest.raises(PlanError, match=r"as in the lock\. Look it up again"):
        image_parts(image.reference, locked(INDEX, "arm64"), "x86_64", client)


def test_a_part_arrives_and_is_not_asked_for_again(image: RegistryImage, tmp_path: Path) -> None:
    seen: list[int] = []
    download(image, PART, tmp_path, seen.append)
    assert (tmp_path / blob(PART.digest)).read_bytes() == LAYER
    assert sum(seen) == len(LAYER)
    image.url = "http://127.0.0.1:1"
    download(image, PART, tmp_path, seen.append)
    assert sum(seen) == 2 * len(LAYER)


def test_one_that_was_cut_off_goes_on(image: RegistryImage, tmp_path: Path) -> None:
    partial = tmp_path / f"{blob(PART.digest)}.part"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(LAYER[:4])
    asked: list[int] = []
    given = image.blob
    image.blob = lambda name, begin: (asked.append(begin), given(name, begin))[1]  # type: ignore[method-assign]
    download(image, PART, tmp_path, lambda _: None)
    assert asked == [4]
    assert (tmp_path / blob(PART.digest)).read_bytes() == LAYER


def test_a_damaged_beginning_is_refused_once(image: RegistryImage, tmp_path: Path) -> None:
    partial = tmp_path / f"{blob(PART.digest)}.part"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"?")
    with pytest.raises(PlanError, match=f"found another content than {PART.digest}"):
        download(image, PART, tmp_path, lambda _: None)
    assert not partial.exists()
    download(image, PART, tmp_path, lambda _: None)
    assert (tmp_path / blob(PART.digest)).read_bytes() == LAYER


def test_one_that_the_registry_lacks(
    image: RegistryImage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkwright.bundle.images._DELAYS", (0.01,))
    with pytest.raises(PlanError, match=r"HTTP status 404 .* run again, which goes on"):
        download(image, Part(digest(b"another"), 7), tmp_path, lambda _: None)
