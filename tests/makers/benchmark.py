"""Answers of a Spark to a benchmark."""

import json
from pathlib import Path
from typing import Any

from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.insight.benchmark.measured import Answer

_RESULTS = Path(__file__).parents[1] / "unit" / "results"
# Of the recipe of both results.
EXPECTED = load_recipe("qwen3.6-35b-nvfp4-dflash").for_sparks(1).expected


def recorded(name: str) -> dict[str, Any]:
    """Return what a Spark has written: "within" what is expected, or with a "power-fault"."""
    found: dict[str, Any] = json.loads((_RESULTS / f"{name}.json").read_text())
    return found


def answer(result: dict[str, Any]) -> Answer:
    return Answer.model_validate_json(json.dumps(result))
