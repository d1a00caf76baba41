"""A checkpoint and an image from a bundle on the Spark: linked or copied, and verified."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkwright.artifacts.weights.weights import manifest_text
from sparkwright.plan.release.bundle import checkpoint_folder
from tests.makers.docker import config_of
from tests.makers.fetching import NAME, Spark
from tests.makers.images import FILES, ID, NAMED, REFERENCE, Side, side


@pytest.fixture
def bundled(spark: Spark) -> Spark:
    """A Spark that is to take its weights from a bundle, which has them all."""
    text = manifest_text(spark.locked, bundled=True)
    (spark.root / f"manifests/{NAME}.json").write_text(text)
    for path in spark.locked.files:
        place = carried(spark) / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(spark.original(path))
    return spark


def carried(spark: Spark) -> Path:
    return spark.root / "bundle" / checkpoint_folder(spark.locked)


@pytest.mark.parametrize(("mode", "links"), [(0o644, 2), (0o666, 1)], ids=["linked", "copied"])
def test_it_is_linked_unless_its_owner_can_still_write_it(
    bundled: Spark, mode: int, links: int
) -> None:
    for path in bundled.locked.files:
        (carried(bundled) / path).chmod(mode)
    bundled.succeed()
    assert bundled.sent == {}
    assert (bundled.folder / "model.safetensors").stat().st_nlink == links


def test_a_changed_byte_is_refused(bundled: Spark) -> None:
    place = carried(bundled) / "model.safetensors"
    content = bytearray(place.read_bytes())
    content[12345] ^= 1
    place.write_bytes(content)
    assert "model.safetensors of" in (said := bundled.refuse())
    assert str(carried(bundled)) in said
    assert not (bundled.folder / "model.safetensors").exists()


def test_what_is_missing_or_a_link_is_named(bundled: Spark, tmp_path: Path) -> None:
    place = carried(bundled) / "model.safetensors"
    place.rename(tmp_path / "elsewhere")
    place.symlink_to(tmp_path / "elsewhere")
    where = f"model.safetensors of {carried(bundled)} cannot be used"
    assert f"{where} (Too many levels of symbolic links)" in bundled.refuse()
    place.unlink()
    said = bundled.refuse()
    assert f"{where} (No such file" in said
    assert "run again, with the bundle" in said


@pytest.fixture
def loading(tmp_path: Path) -> Iterator[Side]:
    """A Spark that is to load an image from a bundle."""
    with side(tmp_path / "spark") as spark:
        blobs = {path: each for path, each in FILES.items() if path.startswith("blobs/")}
        for path, content in blobs.items():
            place = spark.root / "bundle/images" / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
        config, *layers = (f"sha256:{path.rpartition('/')[2]}" for path in blobs)
        spark.order(
            "image-copy",
            images=[REFERENCE, config],
            size=sum(map(len, blobs.values())),
            bundle={
                "media_type": "application/vnd.oci.image.manifest.v1+json",
                "top": config,
                "manifests": [config],
                "config": config,
                "layers": layers,
            },
        )
        yield spark


def test_an_image_is_loaded(loading: Side) -> None:
    status, errors = loading.run("copy-image")
    assert status == 0, errors
    loaded = loading.docker.images[ID]
    assert config_of(loaded) == ID
    assert {*loaded} == {*FILES, "index.json", "oci-layout"}
    assert json.loads(loaded["manifest.json"]) == json.loads(FILES["manifest.json"])
    assert loading.docker.names == [NAMED]


def test_a_layer_with_a_changed_byte_is_refused(loading: Side) -> None:
    path = [each for each in FILES if each.startswith("blobs/")][-1]
    place = loading.root / "bundle/images" / path
    place.write_bytes(place.read_bytes()[:-1] + b"?")
    assert loading.run("copy-image")[0] == 1
    said = loading.progress("image-copy").message
    assert f"{place}: its content is not what its name says" in said
    assert loading.docker.images == {}
