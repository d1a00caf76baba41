"""Recipes of vllm-project/recipes: variants, and in which order their options count."""

from pathlib import Path

import pytest

from sparkwright.declared.recipe.published.document import NotForUs
from sparkwright.declared.recipe.published.sources import Checkout, entries
from tests.makers.models import replaced
from tests.makers.refused import refused
from tests.makers.vllm_project import TEXT
from tests.published import published


@pytest.fixture
def read(tmp_path: Path):
    """Return a function that reads a variant of the text, changed in places."""

    def load(variant, *changes):
        path = tmp_path / "Model-30B.yaml"
        path.write_text(replaced(TEXT, *changes))
        return published(path, variant).recipe

    return load


def test_the_variants_are_recipes(read, tmp_path):
    read("default")
    keys = [entry.key.removeprefix("Model-30B/") for entry in entries(Checkout(tmp_path, "x"))]
    assert keys == ["default", "large", "huge", "elsewhere"]
    # The plain name means the default one.
    assert published(tmp_path / "Model-30B.yaml").recipe.name == "model-30b"


def test_four_sparks_where_two_have_too_little_memory(read):
    assert read("huge").sparks == [4]


def test_one_spark(read):
    recipe = read("default")
    assert (recipe.name, recipe.sparks) == ("model-30b", [1])
    assert recipe.checkpoints["model"].repo == "owner/Model-30B"
    assert recipe.image == "vllm/vllm-openai:latest"
    assert (recipe.judged_by, recipe.source) == ("0.33.0", "there, Model-30B.yaml.")
    assert recipe.env == {"VLLM_USE_V2_MODEL_RUNNER": "1"}
    assert recipe.args == {
        "max-num-seqs": 6,
        "seed": 1,
        "block-size": 16,
        "dtype": "half",
        "enable-auto-tool-choice": True,
        "tool-call-parser": "hermes",
        "enforce-eager": True,
    }


def test_two_sparks(read):
    recipe = read("large")
    assert (recipe.name, recipe.sparks) == ("model-30b-large", [2])
    assert recipe.image == "a/b:130"
    # A strategy's override takes the place of the recipe's.
    assert recipe.args == {
        "max-num-seqs": 4,
        "seed": 1,
        "block-size": 32,
        "enable-auto-tool-choice": True,
        "tool-call-parser": "hermes",
        "pooled": True,
        "three": "yes",
    }


@pytest.mark.parametrize(
    ("variant", "changes", "reason"),
    [
        ("huge", [("vram_minimum_gb: 300", "vram_minimum_gb: 1025")], "another number"),
        ("elsewhere", [], "no GB10"),
        ("large", [("multi_node_tp: {dgx_spark_gb10: supported}", "x: {}")], "another number"),
        ("default", [("dgx_spark_gb10: verified", "b200: verified")], "no GB10"),
        ("default", [("[single_node_tp]", "[single_node_dep]")], "no GB10"),
        ("default", [("meta:", "omni: {}\nmeta:")], "another engine"),
    ],
)
def test_what_is_for_others(read, variant, changes, reason):
    with pytest.raises(NotForUs) as error:
        read(variant, *changes)
    assert error.value.reason.startswith(reason)


@pytest.mark.parametrize(
    ("changes", "line", "problem"),
    [
        ([('- "6"', '- "six"')], 34, "args.max-num-seqs: found"),
        ([('--max-num-seqs"\n', '--uds"\n')], 34, "args.uds: found it set"),
        ([('"1", NCCL', "$X, NCCL")], 36, "env.VLLM_USE_V2_MODEL_RUNNER: found what a shell"),
        ([("owner/Model-30B", "/data/model")], 5, "found the model /data/model"),
    ],
)
def test_lines_of_problems(read, changes, line, problem, tmp_path):
    found = refused(read, "default", *changes)
    assert any(
        each.startswith(f"{tmp_path}/Model-30B.yaml:{line}: ") and problem in each for each in found
    ), found
