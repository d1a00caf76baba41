"""The lock: what it holds, how it is kept, and one that is lost while a release serves."""

import json
from pathlib import Path

import pytest
import yaml

from host.state import engines
from sparkwright.common.errors import PlanError
from sparkwright.common.placed import Place
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.declared.recipe.recipe import Checkpoint, Recipe
from sparkwright.plan.release.command import Ranks
from sparkwright.plan.release.ensure import Served, lost_pins
from sparkwright.plan.release.lock import (
    ImageLock,
    Lock,
    checkpoint_key,
    diff,
    image_key,
    lock_path,
    places,
    read_lock,
    write_lock,
)
from sparkwright.plan.release.model_config import shape_of
from sparkwright.plan.release.release import make_release
from tests.makers.refused import refused
from tests.makers.release import COMMIT, DIGEST, MODEL_CONFIG, checkpoint

SHAPE = shape_of(MODEL_CONFIG)
assert SHAPE


def lock(commit: str = COMMIT) -> Lock:
    image = ImageLock(digest=DIGEST, config=DIGEST, size=7)
    return Lock(images={"i:1": image}, checkpoints={"o/n@main": checkpoint(commit)})


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = lock_path(tmp_path / "x.yaml")
    assert path == tmp_path / "x.lock.yaml"
    assert read_lock(path) == Lock()
    path.touch()
    assert read_lock(path) == Lock()
    write_lock(path, lock())
    assert read_lock(path) == lock()
    assert "date" not in path.read_text()
    assert "shape" not in path.read_text()
    assert read_lock(path).checkpoints["o/n@main"].size == 6
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]
    known = checkpoint().model_copy(update={"date": "2026-04-19", "shape": SHAPE})
    write_lock(path, Lock(checkpoints={"o/n@main": known}))
    assert read_lock(path).checkpoints["o/n@main"] == known


def test_the_same_lock_is_the_same_bytes(tmp_path: Path) -> None:
    image = lock().images["i:1"]
    for names in ("ab", "ba"):
        write_lock(tmp_path / names, Lock(images=dict.fromkeys(names, image)))
    assert (tmp_path / "ab").read_bytes() == (tmp_path / "ba").read_bytes()


CUT = yaml.safe_dump(lock().model_dump(exclude_none=True))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (CUT.replace("    repo: o/n\n", ""), "repo: found nothing; expected a repository, OWNER/"),
        (CUT[: CUT.index("    size: 7")], "images.i:1.size: found nothing; expected bytes"),
        (CUT + "version: 2\n", "version: found an unknown key; expected one of checkpoints"),
        (CUT.replace("size: 7", "size: 7\n    new: 1"), "If a newer Sparkwright has written it"),
        (CUT.replace("sha256:ddd", "sha1:ddd"), "expected sha256: and 64 hexadecimal digits"),
        ("images: [\n", "x.lock.yaml:2: found"),
        (b"\xff\xfe", "cannot be read as UTF-8 text ("),
    ],
)
def test_what_is_no_lock_says_how_to_get_it_back(
    tmp_path: Path, content: str | bytes, told: str
) -> None:
    path = tmp_path / "x.lock.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = refused(read_lock, path)
    assert told in "\n".join(found)
    assert "required" not in "\n".join(found)
    assert found[-1].startswith(
        f"Runs write {path}; it is not meant to be edited. Get it back: git checkout -- {path}; or "
        "delete it and run again, which may choose newer versions"
    )


def test_a_file_that_cannot_be_read_or_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="found a folder; expected the lock"):
        read_lock(tmp_path)
    (tmp_path / "x").write_text(f"# ours\n<<<<<<< HEAD\n{CUT}=======\n{CUT}>>>>>>> main\n")
    with pytest.raises(PlanError, match=r"x:2: found a conflict mark of git; expected"):
        read_lock(tmp_path / "x")
    (tmp_path / "file").touch()
    with pytest.raises(PlanError, match=r"cannot be written \(.* is no folder\)"):
        write_lock(tmp_path / "file" / "x.lock.yaml", lock())


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        *(
            ("files", {path: {"size": 1}}, "expected a relative path without '..'")
            for path in ("/etc/passwd", "../x", "a/../../x", "", "a\nb")
        ),
        *(("commit", it, "40 hexadecimal digits") for it in ("main", "C" * 40, "c" * 39, "")),
        *(("date", day, "expected a date in quotes") for day in ("19 April", "2026-04-31", "")),
        ("shape", SHAPE.model_dump() | {"hidden": "many"}, 'found "many"; expected numbers'),
    ],
)
def test_what_no_checkpoint_has_is_refused(
    tmp_path: Path, key: str, value: object, told: str
) -> None:
    data = lock().model_dump(exclude_none=True)
    data["checkpoints"]["o/n@main"][key] = value
    target = tmp_path / "x.lock.yaml"
    target.write_text(yaml.safe_dump(data))
    found = refused(read_lock, target)
    assert f"checkpoints.o/n@main.{key}" in found[0]
    assert told in found[0]


def test_diff_says_what_came_went_and_changed() -> None:
    image = ImageLock(digest=DIGEST, config=DIGEST, size=1234)
    new = Lock(images={"i:2": image}, checkpoints=lock().checkpoints)
    assert diff(lock(), lock()) == []
    assert diff(lock(), new) == [
        f"- image i:1: {DIGEST}, 7 bytes",
        f"+ image i:2: {DIGEST}, 1,234 bytes",
    ]
    assert diff(lock(), lock("e" * 40)) == [
        f"~ checkpoint o/n@main: {COMMIT}, 2 files, 6 bytes -> {'e' * 40}, 2 files, 6 bytes"
    ]
    # What a refresh has found out.
    known = checkpoint().model_copy(update={"date": "2026-04-19", "shape": SHAPE})
    (line,) = diff(lock(), Lock(images=lock().images, checkpoints={"o/n@main": known}))
    before, after = (f"{COMMIT}{day}, 2 files, 6 bytes" for day in ("", " of 2026-04-19"))
    assert line == f"~ checkpoint o/n@main: {before} -> {after}"


def test_the_places_where_a_spark_may_have_a_checkpoint() -> None:
    assert places("o/n", "mine@0123", ["/hub", "/nas"]) == [
        *("/hub/models--o--n/blobs", "/hub/hub/models--o--n/blobs", "/hub/o/n", "/hub/n"),
        "/hub/mine",
        *("/nas/models--o--n/blobs", "/nas/hub/models--o--n/blobs", "/nas/o/n", "/nas/n"),
        "/nas/mine",
    ]
    assert places("o/n", "mine", ()) == []


INVENTORY = Path("inventory/sparks.yaml")


RECIPE = load_recipe("qwen3.6-35b-nvidia")
OTHER = load_recipe("qwen3.6-35b-nvfp4-dflash")
IMAGE, MODEL = f"vllm/vllm-openai@{DIGEST}", f"nvidia/Qwen3.6-35B-A3B-NVFP4@{COMMIT}"
SERVED = Served(release="it's-1", vllm=RECIPE.vllm, pins=(IMAGE, MODEL))
FULL = Lock(
    images={image_key(RECIPE): ImageLock(digest=DIGEST, config=DIGEST, size=7)},
    checkpoints={
        checkpoint_key(each): checkpoint().model_copy(
            update={"repo": each.repo, "revision": each.revision}
        )
        for each in RECIPE.checkpoints.values()
    },
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A Spark's folder whose `current` is a release of the recipe."""
    release = make_release(RECIPE, FULL, Place(str(tmp_path)), Ranks(("a",)))
    folder = tmp_path / "releases" / "it's-1"
    for name, text in release.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (tmp_path / "current").symlink_to(folder.relative_to(tmp_path))
    return tmp_path


def read(root: Path) -> Served:
    return Served.model_validate_json(json.dumps(engines.served(root=str(root))))


def said(lock: Lock | None, *recipes: Recipe, served: Served = SERVED) -> str:
    """Return why names may not be looked up; "" if they may."""
    return lost_pins(INVENTORY, lock, recipes, {"a": Served(), "b": served}) or ""


def test_a_spark_says_what_it_serves_if_anything(root: Path) -> None:
    assert read(root) == SERVED
    (root / "current").unlink()
    assert read(root / "none") == read(root) == Served()
    (root / "current").symlink_to("gone")
    assert read(root) == Served()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"vllm": "1", "image": "a"}'])
def test_what_is_no_release_is_an_error(root: Path, text: str) -> None:
    (root / "current" / "release.json").write_text(text)
    with pytest.raises((ValueError, KeyError, TypeError)):
        read(root)


@pytest.mark.parametrize("pin", [f"$(reboot)@{DIGEST}", f"o/n; reboot@{COMMIT}", "o/n@main"])
def test_only_names_that_may_be_printed_as_words_are_adopted(pin: str) -> None:
    repo = Checkpoint.model_construct(repo=pin.rpartition("@")[0])
    wanted = RECIPE.model_copy(update={"checkpoints": {"model": repo}})
    told = said(None, wanted, served=SERVED.model_copy(update={"pins": (pin,)}))
    assert told
    assert "--adopt" not in told


def test_no_file() -> None:
    assert said(None, RECIPE, served=Served()) == ""
    told = said(None, RECIPE)
    assert told.startswith(
        "inventory/sparks.lock.yaml: found no such file, while b serves it's-1; expected what"
    )
    assert "git checkout -- inventory/sparks.lock.yaml" in told
    assert f"sparkwright lock --adopt {IMAGE} --adopt {MODEL}\n" in told
    assert told.endswith("for today: sparkwright lock")
    told = said(None, OTHER)
    assert told
    assert "--adopt" not in told
    # The digest of an image with another vLLM cannot stand for the tag of the recipe.
    told = said(None, RECIPE.model_copy(update={"vllm": "99.0"}))
    assert f"sparkwright lock --adopt {MODEL}\n" in told


@pytest.mark.parametrize(
    ("lacks", "names"),
    [
        ({"images": {}}, "vllm/vllm-openai"),
        ({"checkpoints": {}}, "nvidia/Qwen3.6-35B-A3B-NVFP4"),
        ({"images": {}, "checkpoints": {}}, "vllm/vllm-openai and nvidia/Qwen3.6-35B"),
    ],
)
def test_a_file_without_what_serves(lacks: dict[str, object], names: str) -> None:
    told = said(FULL.model_copy(update=lacks), RECIPE)
    assert f"lock.yaml: found no entry for {names}" in told


def test_another_recipe_or_a_new_version_goes_on() -> None:
    rebuilt = RECIPE.model_copy(update={"image": "vllm/vllm-openai:v99"})
    newer = rebuilt.model_copy(update={"vllm": "99.0"})
    for wanted in (OTHER, rebuilt, newer):
        assert said(FULL, wanted) == ""
    # The recipe that serves is to be replaced by one that the lock has not, either.
    image = ImageLock(digest=f"sha256:{'e' * 64}", config=DIGEST, size=7)
    strange = Lock(images={"x/y:1": image})
    assert said(strange, OTHER) == ""
    assert said(strange, OTHER, RECIPE)
    # The same image under another tag is not what serves.
    tagged = FULL.model_copy(update={"images": {"vllm/vllm-openai:v1": image}})
    assert f"--adopt {IMAGE}\n" in said(tagged, RECIPE)
