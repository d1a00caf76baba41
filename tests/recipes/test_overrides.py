"""What hf-overrides of recipes change, by vLLM's own configuration; and what vLLM calculates."""

import json
from pathlib import Path

import pytest

from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.plan.memory.known_checkpoints import checkpoint_data
from tests.recipes import releases
from tests.recipes.environment import run_script

SCRIPT = Path(__file__).with_name("text_config.py")


@pytest.mark.parametrize("overridden", [True, False])
def test_the_tables_dtype_reaches_the_model(overridden: bool) -> None:
    recipe = load_recipe("qwen3.8-flash-next-b12x")
    known = checkpoint_data(recipe.checkpoints["model"].repo)
    args = {"hf_overrides": recipe.args["hf-overrides"]} if overridden else {}
    request = {"config": known.config, "args": args, "key": "ple_embedding_dtype"}
    said = json.loads(run_script(recipe.judge, SCRIPT, text=json.dumps(request)))
    assert said == ("nvfp4" if overridden else None)


@pytest.mark.parametrize(("version", "leaves_them"), [("0.18.0", False), ("0.19.0", True)])
def test_a_release_that_leaves_the_scales_of_hybrids_alone(version: str, leaves_them: bool) -> None:
    source = releases.files(version) / "vllm/model_executor/models/config.py"
    assert ("Disabling calculate_kv_scales for hybrid model" in source.read_text()) is leaves_them
