"""A lock that is lost while a release serves."""

import json
from pathlib import Path

import pytest

from host.state import engines
from sparkwright.common.placed import Place
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.declared.recipe.recipe import Checkpoint, Recipe
from sparkwright.plan.release.command import Ranks
from sparkwright.plan.release.ensure import Served, lost_pins
from sparkwright.plan.release.lock import ImageLock, Lock, checkpoint_key, image_key
from sparkwright.plan.release.release import make_release
from tests.makers.release import COMMIT, DIGEST, checkpoint

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
    folder.mkdir(parents=True)
    for name, text in release.files.items():
        (folder / name).write_text(text)
    (tmp_path / "current").symlink_to(folder.relative_to(tmp_path))
    return tmp_path


def read(root: Path) -> Served:
    return Served.model_validate_json(json.dumps(engines.served(root=str(root))))


def said(lock: Lock | None, *recipes: Recipe, served: Served = SERVED) -> str:
    """Return why names may not be looked up; "" if they may."""
    return lost_pins(INVENTORY, lock, recipes, {"a": Served(), "b": served}) or ""


def test_a_spark_says_what_it_serves(root: Path) -> None:
    assert read(root) == SERVED


def test_a_new_spark_serves_nothing(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == read(tmp_path) == Served()
    (tmp_path / "current").symlink_to("gone")
    assert read(tmp_path) == Served()


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
