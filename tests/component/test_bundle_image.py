"""The parts of an image from a real registry into a bundle: whole, continued, or refused."""

from pathlib import Path

import pytest

from sparkwright.artifacts.bundle.downloads import fetch_image, fetch_part
from sparkwright.common.errors import PlanError
from sparkwright.plan.release.registry import RegistryImage
from sparkwright.plan.release.web import WebClient
from tests.makers.registry import (
    BLOBS,
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
DIGEST = digest(LAYER)


@pytest.fixture
def image(registry: str) -> RegistryImage:
    return RegistryImage(f"{registry}/lab/many@{digest(INDEX)}", WebClient())


def fetch(image: RegistryImage, place: Path) -> list[int]:
    return list(fetch_part(image, DIGEST, len(LAYER), place))


@pytest.mark.parametrize(
    ("name", "top", "kind", "architecture"),
    [("many", INDEX, "index", "amd64"), ("one", SINGLE, "manifest", "arm64")],
)
def test_all_parts_of_an_image_for_one_processor(
    registry: str, tmp_path: Path, name: str, top: bytes, kind: str, architecture: str
) -> None:
    arch = {"amd64": "x86_64", "arm64": "aarch64"}[architecture]
    reference = f"{registry}/lab/{name}@{digest(top)}"
    found = fetch_image(reference, arch, tmp_path)
    lock = locked(top, architecture)
    assert (found.top, found.config) == (lock.digest, lock.config)
    assert found.media_type == f"application/vnd.oci.image.{kind}.v1+json"
    contents = {(tmp_path / path).read_bytes() for path in found.blobs}
    expected = {top, IMAGES[architecture], BLOBS[lock.config], PLATFORMS[architecture]}
    assert contents == expected


def test_a_part_that_was_cut_off_goes_on_and_is_not_asked_for_again(
    image: RegistryImage, tmp_path: Path
) -> None:
    (tmp_path / "layer.part").write_bytes(LAYER[:4])
    asked: list[int] = []
    given = image.blob
    image.blob = lambda name, begin: (asked.append(begin), given(name, begin))[1]  # type: ignore[method-assign]
    assert fetch(image, tmp_path / "layer") == [len(LAYER)]
    assert asked == [4]
    assert (tmp_path / "layer").read_bytes() == LAYER
    image.url = "http://127.0.0.1:1"
    assert fetch(image, tmp_path / "layer") == []


def test_one_that_the_registry_lacks(
    image: RegistryImage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkwright.artifacts.bundle.downloads._DELAYS", (0.01,))
    with pytest.raises(PlanError, match=r"HTTP status 404 .* run again, which goes on"):
        list(fetch_part(image, digest(b"another"), 7, tmp_path / "layer"))
