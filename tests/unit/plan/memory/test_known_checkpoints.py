"""The data of checkpoints in files/models: all recipes have them, and nothing else does."""

from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.declared.recipe.loader import load_recipe, recipe_names
from sparkwright.plan.memory import known_checkpoints
from sparkwright.plan.memory.known_checkpoints import MODELS, checkpoint_data, data_file
from sparkwright.plan.release.lock import (
    CheckpointLock,
    Lock,
    LockedFile,
    checkpoint_key,
    write_lock,
)
from tests.commands import sparkwright

ADD = "python -m tests.recipes.add_model"
RECIPES = [recipe for recipe in map(load_recipe, recipe_names()) if recipe.hardware != ["lab"]]
RECIPE = "qwen3.5-35b"
SHAPE = checkpoint_data("Qwen/Qwen3.5-35B-A3B").shape
NAMED = {checkpoint.repo for recipe in RECIPES for checkpoint in recipe.checkpoints.values()}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a site, with a Sparkwright that knows no checkpoint."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(known_checkpoints, "MODELS", tmp_path / "models")
    return tmp_path


def test_every_recipe_has_the_data_of_its_checkpoints_and_reads_all():
    lacking = {
        recipe.name
        for recipe in RECIPES
        for checkpoint in recipe.checkpoints.values()
        if checkpoint_data(checkpoint.repo) is None
    }
    assert not lacking, f"run: {ADD} {' '.join(sorted(lacking))}"
    files = {path for path in MODELS.rglob("*") if path.is_file()}
    strange = files - {data_file(repo) for repo in NAMED}
    assert not strange, f"no recipe names them: {', '.join(map(str, strange))}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "expected JSON"),
        ("[" * 100_000, "expected JSON"),
        ("[]", "a.json: found []; expected"),
        ('{"size": "1", "source": "x", "config": {}}', 'size: found "1"; expected the bytes of'),
        ('{"size": 2000000000000000, "source": "x", "config": {}}', "size: found 2000000000000000"),
    ],
    ids=["cut", "deep", "list", "text", "large"],
)
def test_a_file_that_is_broken_is_named(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(known_checkpoints, "MODELS", tmp_path)
    (tmp_path / "owner").mkdir()
    (tmp_path / "owner" / "a.json").write_text(text)
    with pytest.raises(PlanError) as caught:
        checkpoint_data("owner/a")
    assert str(caught.value).startswith(f"{tmp_path}/owner/a.json: ")
    assert said in str(caught.value)


def test_what_the_project_does_not_know_the_lock_of_the_site_does(
    site: Path, capsys: pytest.CaptureFixture[str]
):
    checkpoint = load_recipe(RECIPE).checkpoints["model"]
    locked = CheckpointLock(
        repo=checkpoint.repo,
        revision=checkpoint.revision,
        commit="1" * 40,
        files={
            "a.safetensors": LockedFile(size=70 * 10**9),
            "b.safetensors": LockedFile(size=2 * 10**9),
            "c.json": LockedFile(size=10**9),
        },
        shape=SHAPE,
    )
    lock = Lock(checkpoints={checkpoint_key(checkpoint): locked})
    write_lock(site / "inventory" / "sparks.lock.yaml", lock)
    assert sparkwright("recipes", "memory", RECIPE) == 0
    assert capsys.readouterr().out.startswith(
        f"# {RECIPE} on one Spark, gb10\nweights        65.55"
    )
