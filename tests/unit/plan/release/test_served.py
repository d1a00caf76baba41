"""A lock that is lost while a release serves."""

import json
from pathlib import Path

import pytest

from host.state import engines
from sparkwright.common.placed import Place
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.declared.recipe.recipe import Checkpoint, Recipe
from sparkwright.plan.release.command import Ranks
from sparkwright.plan.release.lock import ImageLock, Lock, checkpoint_key, image_key
from sparkwright.plan.release.release import make_release
from sparkwright.plan.release.served import Served, lost_pins
from tests.makers.release import COMMIT, DIGEST, checkpoint

INVENTORY = Path("inventory/sparks.yaml")


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return load_recipe("qwen3.6-35b-nvidia")


def full(recipe: Recipe) -> Lock:
    image = ImageLock(digest=DIGEST, config=DIGEST, size=7)
    checkpoints = {
        checkpoint_key(each): checkpoint().model_copy(
            update={"repo": each.repo, "revision": each.revision}
        )
        for each in recipe.checkpoints.values()
    }
    return Lock(images={image_key(recipe): image}, checkpoints=checkpoints)


@pytest.fixture
def root(recipe: Recipe, tmp_path: Path) -> Path:
    """A Spark's folder whose `current` is a release of the recipe."""
    release = make_release(recipe, full(recipe), Place(str(tmp_path)), Ranks(("a",)))
    folder = tmp_path / "releases" / "it's-1"
    folder.mkdir(parents=True)
    for name, text in release.files.items():
        (folder / name).write_text(text)
    (tmp_path / "current").symlink_to(folder.relative_to(tmp_path))
    return tmp_path


def read(root: Path) -> Served:
    return Served.model_validate_json(json.dumps(engines.served(root=str(root))))


def test_a_spark_says_what_it_serves(root: Path, recipe: Recipe) -> None:
    assert read(root) == Served(
        release="it's-1",
        vllm=recipe.vllm,
        pins=(f"vllm/vllm-openai@{DIGEST}", f"nvidia/Qwen3.6-35B-A3B-NVFP4@{COMMIT}"),
    )


def test_a_new_spark_serves_nothing(tmp_path: Path) -> None:
    assert read(tmp_path / "none") == read(tmp_path) == Served()
    (tmp_path / "current").symlink_to("gone")
    assert read(tmp_path) == Served()


@pytest.mark.parametrize("pin", [f"$(reboot)@{DIGEST}", f"o/n; reboot@{COMMIT}", "o/n@main"])
def test_only_names_that_may_be_printed_as_words_are_adopted(recipe: Recipe, pin: str) -> None:
    says = Served(release="r-1", vllm=recipe.vllm, pins=(pin,))
    repo = Checkpoint.model_construct(repo=pin.rpartition("@")[0])
    wanted = recipe.model_copy(update={"checkpoints": {"model": repo}})
    said = lost_pins(INVENTORY, None, [wanted], {"a": says})
    assert said
    assert "--adopt" not in said


@pytest.mark.parametrize("said", ["", "[]", "{}", '{"vllm": "1", "image": "a"}'])
def test_what_is_no_release_is_an_error(root: Path, said: str) -> None:
    (root / "current" / "release.json").write_text(said)
    with pytest.raises((ValueError, KeyError, TypeError)):
        read(root)


class TestLostPins:
    def test_no_file_while_nothing_or_something_else_serves(
        self, root: Path, recipe: Recipe
    ) -> None:
        assert lost_pins(INVENTORY, None, [recipe], {"a": Served(), "b": Served()}) is None
        other = load_recipe("qwen3.6-35b-nvfp4-dflash")
        said = lost_pins(INVENTORY, None, [other], {"a": read(root)})
        assert said
        assert "--adopt" not in said
        # The digest of an image with another vLLM cannot stand for the tag of the recipe.
        newer = recipe.model_copy(update={"vllm": "99.0"})
        said = lost_pins(INVENTORY, None, [newer], {"a": read(root)})
        assert said
        assert f"--adopt nvidia/Qwen3.6-35B-A3B-NVFP4@{COMMIT}\n" in said

    def test_no_file_while_one_of_two_serves(self, root: Path, recipe: Recipe) -> None:
        said = lost_pins(INVENTORY, None, [recipe], {"a": Served(), "b": read(root)})
        assert said
        assert said.startswith(
            "inventory/sparks.lock.yaml: found no such file, while b serves it's-1; expected what"
        )
        assert "git checkout -- inventory/sparks.lock.yaml" in said
        pins = f"--adopt vllm/vllm-openai@{DIGEST} --adopt nvidia/Qwen3.6-35B-A3B-NVFP4@{COMMIT}"
        assert f"sparkwright lock {pins}\n" in said
        assert said.endswith("for today: sparkwright lock")

    @pytest.mark.parametrize(
        ("lacks", "names"),
        [
            ({"images": {}}, "vllm/vllm-openai"),
            ({"checkpoints": {}}, "nvidia/Qwen3.6-35B-A3B-NVFP4"),
            ({"images": {}, "checkpoints": {}}, "vllm/vllm-openai and nvidia/Qwen3.6-35B"),
        ],
    )
    def test_a_file_without_what_serves(
        self, root: Path, recipe: Recipe, lacks: dict[str, object], names: str
    ) -> None:
        lock = full(recipe).model_copy(update=lacks)
        said = lost_pins(INVENTORY, lock, [recipe], {"a": read(root)})
        assert said
        assert f"lock.yaml: found no entry for {names}" in said

    def test_another_recipe_or_a_new_version_goes_on(self, root: Path, recipe: Recipe) -> None:
        other = load_recipe("qwen3.6-35b-nvfp4-dflash")
        rebuilt = recipe.model_copy(update={"image": "vllm/vllm-openai:v99"})
        newer = rebuilt.model_copy(update={"vllm": "99.0"})
        for wanted in (other, rebuilt, newer):
            assert lost_pins(INVENTORY, full(recipe), [wanted], {"a": read(root)}) is None
        # The recipe that serves is to be replaced by one that the lock has not, either.
        image = ImageLock(digest=f"sha256:{'e' * 64}", config=DIGEST, size=7)
        strange = Lock(images={"x/y:1": image})
        assert lost_pins(INVENTORY, strange, [other], {"a": read(root)}) is None
        assert lost_pins(INVENTORY, strange, [other, recipe], {"a": read(root)})
        # The same image under another tag is not what serves.
        tagged = full(recipe).model_copy(update={"images": {"vllm/vllm-openai:v1": image}})
        said = lost_pins(INVENTORY, tagged, [recipe], {"a": read(root)})
        assert said
        assert f"--adopt vllm/vllm-openai@{DIGEST}\n" in said
