"""A bundle's index: what is wrong with it is said before any Spark is reached."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.plan.release.bundle import (
    Bundle,
    blob,
    checkpoint_folder,
    file_hash,
    read_bundle,
    wheels_of,
)
from sparkwright.plan.release.ensure import ensure_lock
from sparkwright.plan.release.lock import (
    CheckpointLock,
    ImageLock,
    Lock,
    LockedFile,
    checkpoint_key,
    image_key,
    lock_path,
    read_lock,
)
from tests.makers.bundle import write_index
from tests.makers.refused import refusal

RECIPE = load_recipe("lab-tiny")
(CHECKPOINT,) = RECIPE.checkpoints.values()
CONTENT, WHEEL = b"weights", "wheels/tool-1.0-py3-none-any.whl"
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
    contents |= {f"images/{blob(digest)}": each for digest, each in PARTS.items()}
    contents[WHEEL] = b"wheel"
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
    write_index(folder, LOCK.model_dump(exclude_none=True), {image_key(RECIPE): image})
    return folder


def entry(content: bytes) -> dict[str, Any]:
    return {"size": len(content), "sha256": sha256(content).hexdigest()}


def pinned(folder: Path) -> Bundle:
    """Read a bundle by an inventory that has the digest of its index."""
    index = folder / "bundle.json"
    digest = file_hash(index) if index.is_file() else "0" * 64
    return read_bundle(folder, digest, Path("sparks.yaml"))


def change(folder: Path, edit: Any) -> None:
    index = json.loads((folder / "bundle.json").read_text())
    edit(index)
    (folder / "bundle.json").write_text(json.dumps(index))


def test_a_complete_one(folder: Path) -> None:
    # A file that is in no index is of no use.
    (folder / "wheels/more.whl").write_bytes(b"more")
    (folder / "packages/arm64/0").mkdir(parents=True)
    (folder / "packages/arm64/0/InRelease").write_text("x")
    bundle = pinned(folder)
    assert bundle.lacks(RECIPE, LOCK) == []
    assert bundle.below("wheels") == [WHEEL]
    assert len(bundle.below("images")) == 3
    assert bundle.below("packages/arm64") == []


def test_none(folder: Path, tmp_path: Path) -> None:
    for place, found in ((tmp_path / "absent", "no such folder"), (tmp_path, "no bundle.json")):
        assert f"found {found}" in refusal(pinned, place)
        assert f"`sparkwright bundle {place}`" in refusal(pinned, place)
    for text in ("{", "[]", '{"version": 2}', "null"):
        (folder / "bundle.json").write_text(text)
        assert str(folder / "bundle.json") in refusal(pinned, folder)


def test_an_index_that_leads_out_of_the_folder_or_is_huge(folder: Path) -> None:
    change(folder, lambda index: index["files"].update({"../x": {"size": 1, "sha256": "a" * 64}}))
    assert "../x" in refusal(pinned, folder)
    with (folder / "bundle.json").open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(PlanError, match="found more than 67,108,864 bytes"):
        read_bundle(folder, "0" * 64, Path("sparks.yaml"))


@pytest.mark.parametrize(
    ("content", "found"),
    [(b"wEights", "another content"), (b"weight", "6 bytes"), (None, "no file")],
)
def test_a_file_that_was_changed(folder: Path, content: bytes | None, found: str) -> None:
    file = folder / checkpoint_folder(LOCKED) / "sub/config.json"
    file.write_bytes(content) if content else file.unlink()
    assert f"{file}: found {found}" in refusal(pinned, folder)
    assert "sparkwright bundle" in refusal(pinned, folder)


def test_an_inventory_without_a_digest_takes_nothing(folder: Path) -> None:
    said = refusal(read_bundle, folder, None, Path("sparks.yaml"))
    assert said.startswith("sparks.yaml: source.sha256: found nothing; expected the line that `")
    assert "`sha256: ` and 64 hexadecimal digits" in said
    # What the disk says of itself is no help to whoever has exchanged it.
    assert file_hash(folder / "bundle.json") not in said


def test_an_exchanged_file_and_index_are_refused(folder: Path) -> None:
    """Whoever had the disk for a minute has made all of it agree."""
    digest = file_hash(folder / "bundle.json")
    content = b"#!/bin/sh\nid >/root/was-here\n"
    path = "packages/arm64/0/pool/haproxy_1_arm64.deb"
    (folder / path).parent.mkdir(parents=True)
    (folder / path).write_bytes(content)
    change(folder, lambda index: index["files"].update({path: entry(content)}))
    pinned(folder)
    found = f"sparks.yaml: source.sha256: found {digest}; expected that of {folder}"
    with pytest.raises(PlanError, match=found):
        read_bundle(folder, digest, Path("sparks.yaml"))


def test_a_link_in_it(folder: Path, tmp_path: Path) -> None:
    """A file of the machine that runs Sparkwright must not be sent."""
    for name in (WHEEL, "wheels"):
        (folder / name).rename(tmp_path / Path(name).name)
        (folder / name).symlink_to(tmp_path / Path(name).name)
        assert "found a link; expected a file" in refusal(pinned, folder)
        (folder / name).unlink()
        (tmp_path / Path(name).name).rename(folder / name)


def test_what_is_not_in_it_is_named(folder: Path) -> None:
    bundle, other = pinned(folder), LOCK.model_copy(deep=True)
    other.checkpoints[checkpoint_key(CHECKPOINT)] = LOCKED.model_copy(update={"commit": "b" * 40})
    (problem,) = bundle.lacks(RECIPE, other)
    assert f"found no {checkpoint_key(CHECKPOINT)} as the lock has it" in problem
    image = ImageLock(digest=f"sha256:{'c' * 64}", config=CONFIG, size=5)
    (problem,) = bundle.lacks(
        RECIPE, Lock(images={image_key(RECIPE): image}, checkpoints=LOCK.checkpoints)
    )
    assert f"found no {image_key(RECIPE)} as the lock has it" in problem
    problem = bundle.lacks(load_recipe("lab-built"), LOCK)[0]
    assert "image: found one that a Spark builds" in problem
    with pytest.raises(PlanError, match=r"found no wheel of other==2, which requirements.txt"):
        wheels_of(bundle, f"other==2 --hash=sha256:{'0' * 64}\n", "requirements.txt")


def test_wheels_are_those_that_requirements_allow(folder: Path) -> None:
    digest = sha256(b"wheel").hexdigest()
    hashes = [f"    --hash=sha256:{each}" for each in ("0" * 64, digest)]
    text = " \\\n".join(["# A comment.\ntool==1.0", *hashes]) + "\n"
    assert wheels_of(pinned(folder), text, "requirements.txt") == [WHEEL]


def test_the_lock_is_completed_from_it(folder: Path, tmp_path: Path) -> None:
    """Nobody is asked: the endpoint would refuse."""
    inventory, other = tmp_path / "sparks.yaml", tmp_path / "other.yaml"
    found = ensure_lock(inventory, [RECIPE], "http://127.0.0.1:1", None, bundle=pinned(folder))
    assert found == LOCK
    assert read_lock(lock_path(inventory)) == LOCK
    change(folder, lambda index: index["lock"].update(checkpoints={}))
    with pytest.raises(PlanError, match=r"found no \S+ as the lock has it; .*sparkwright bundle"):
        ensure_lock(other, [RECIPE], "http://127.0.0.1:1", None, bundle=pinned(folder))
    assert not lock_path(other).exists()
