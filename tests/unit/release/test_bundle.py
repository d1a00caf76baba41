"""A bundle's index: what is wrong with it is said before any Spark is reached."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.recipe.loader import load_recipe
from sparkwright.release.bundle import Bundle, checkpoint_folder, pins, read_bundle, wheels_of
from sparkwright.release.ensure import ensure_lock
from sparkwright.release.lock import (
    CheckpointLock,
    ImageLock,
    Lock,
    LockedFile,
    checkpoint_key,
    image_key,
    lock_path,
    read_lock,
)

RECIPE = load_recipe("lab-tiny")
(CHECKPOINT,) = RECIPE.checkpoints.values()
CONTENT = b"weights"
PARTS = {f"sha256:{sha256(each).hexdigest()}": each for each in (b"top", b"config", b"layer")}
TOP, CONFIG, LAYER = PARTS
FILE = LockedFile(size=len(CONTENT), sha256=sha256(CONTENT).hexdigest())
LOCKED = CheckpointLock(
    repo=CHECKPOINT.repo,
    revision=CHECKPOINT.revision,
    commit="a" * 40,
    files={"model.safetensors": FILE, "sub/config.json": FILE},
)
LOCK = Lock(
    images={image_key(RECIPE): ImageLock(digest=TOP, config=CONFIG, size=5)},
    checkpoints={checkpoint_key(CHECKPOINT): LOCKED},
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A complete bundle for RECIPE."""
    contents = {f"{checkpoint_folder(LOCKED)}/{path}": CONTENT for path in LOCKED.files}
    contents |= {
        f"images/blobs/sha256/{digest.removeprefix('sha256:')}": each
        for digest, each in PARTS.items()
    }
    contents["wheels/tool-1.0-py3-none-any.whl"] = b"wheel"
    folder = tmp_path / "bundle"
    for path, content in contents.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    image = {
        "media_type": "application/vnd.oci.image.manifest.v1+json",
        "top": TOP,
        "manifests": [TOP],
        "config": CONFIG,
        "layers": [LAYER],
    }
    index = {
        "version": 1,
        "lock": LOCK.model_dump(exclude_none=True),
        "images": {image_key(RECIPE): image},
        "files": {
            path: {"size": len(each), "sha256": sha256(each).hexdigest()}
            for path, each in contents.items()
        },
    }
    (folder / "bundle.json").write_text(json.dumps(index))
    return folder


def refused(folder: Path) -> str:
    with pytest.raises(PlanError) as refusal:
        read_bundle(folder).check(RECIPE, LOCK)
    return str(refusal.value)


def change(folder: Path, edit: Any) -> None:
    index = json.loads((folder / "bundle.json").read_text())
    edit(index)
    (folder / "bundle.json").write_text(json.dumps(index))


def test_a_complete_one(folder: Path) -> None:
    bundle = read_bundle(folder)
    bundle.check(RECIPE, LOCK)
    assert bundle.below("wheels") == ["wheels/tool-1.0-py3-none-any.whl"]
    assert len(bundle.below("images")) == 3
    assert bundle.below("packages/arm64") == []


@pytest.mark.parametrize(
    ("there", "found"), [(False, "no such folder"), (True, "found no bundle.json")]
)
def test_none(tmp_path: Path, there: bool, found: str) -> None:
    folder = tmp_path / "empty"
    if there:
        folder.mkdir()
    assert found in refused(folder)
    assert f"`sparkwright bundle {folder}`" in refused(folder)


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 2}', "null"])
def test_an_index_that_is_none(folder: Path, text: str) -> None:
    (folder / "bundle.json").write_text(text)
    assert str(folder / "bundle.json") in refused(folder)


def test_a_path_out_of_the_folder(folder: Path) -> None:
    change(folder, lambda index: index["files"].update({"../x": {"size": 1, "sha256": "a" * 64}}))
    assert "../x" in refused(folder)


@pytest.mark.parametrize(
    ("content", "found"),
    [(b"wEights", "another content"), (b"weight", "6 bytes"), (None, "no file")],
)
def test_a_file_that_was_changed(folder: Path, content: bytes | None, found: str) -> None:
    file = folder / checkpoint_folder(LOCKED) / "sub/config.json"
    file.write_bytes(content) if content else file.unlink()
    assert f"{file}: found {found}" in refused(folder)
    assert "sparkwright bundle" in refused(folder)


def test_a_checkpoint_that_is_not_in_it(folder: Path) -> None:
    lock = LOCK.model_copy(deep=True)
    lock.checkpoints[checkpoint_key(CHECKPOINT)] = LOCKED.model_copy(update={"commit": "b" * 40})
    with pytest.raises(PlanError, match=r"found no weights/.*@bbbb.*, and 1 more; expected all"):
        read_bundle(folder).check(RECIPE, lock)


def test_another_image(folder: Path) -> None:
    lock = LOCK.model_copy(deep=True)
    other = ImageLock(digest=f"sha256:{'c' * 64}", config=CONFIG, size=5)
    lock.images[image_key(RECIPE)] = other
    with pytest.raises(PlanError, match=r"images: found its image sha256:.*expected sha256:ccc"):
        read_bundle(folder).check(RECIPE, lock)


def test_a_part_of_an_image_that_is_missing(folder: Path) -> None:
    path = f"images/blobs/sha256/{LAYER.removeprefix('sha256:')}"
    change(folder, lambda index: index["files"].pop(path))
    assert f"found no {path}" in refused(folder)


def test_the_lock_is_completed_from_it(folder: Path, tmp_path: Path) -> None:
    """Nobody is asked: the endpoint would refuse."""
    inventory = tmp_path / "sparks.yaml"
    found = ensure_lock(inventory, [RECIPE], "http://127.0.0.1:1", None, bundle=read_bundle(folder))
    assert found == LOCK
    assert read_lock(lock_path(inventory)) == LOCK


def test_a_lock_that_it_does_not_match_is_refused(folder: Path, tmp_path: Path) -> None:
    inventory = tmp_path / "other.yaml"
    change(folder, lambda index: index["lock"].update(checkpoints={}))
    with pytest.raises(PlanError, match=r"lock.checkpoints: found no .*sparkwright bundle"):
        ensure_lock(inventory, [RECIPE], "http://127.0.0.1:1", None, bundle=read_bundle(folder))
    assert not lock_path(inventory).exists()


def test_a_recipe_that_builds(folder: Path) -> None:
    built = load_recipe("lab-built")
    with pytest.raises(PlanError, match=r"image: found one that a Spark builds"):
        read_bundle(folder).check(built, LOCK)


class TestWheels:
    def bundle(self, folder: Path) -> Bundle:
        return read_bundle(folder)

    def test_those_that_requirements_allow(self, folder: Path) -> None:
        digest = sha256(b"wheel").hexdigest()
        hashes = [f"    --hash=sha256:{each}" for each in ("0" * 64, digest)]
        text = " \\\n".join(["# A comment.\ntool==1.0", *hashes]) + "\n"
        assert pins(text) == {"tool==1.0": ["0" * 64, digest]}
        found = wheels_of(self.bundle(folder), text, "requirements.txt")
        assert found == ["wheels/tool-1.0-py3-none-any.whl"]

    def test_one_that_is_missing(self, folder: Path) -> None:
        text = f"other==2 --hash=sha256:{'0' * 64}\n"
        with pytest.raises(PlanError, match=r"found no wheel of other==2, which requirements.txt"):
            wheels_of(self.bundle(folder), text, "requirements.txt")
