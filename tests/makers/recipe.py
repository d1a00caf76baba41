"""A recipe that is good, and what is said of one that is not."""

from pathlib import Path

import yaml

from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.declared.recipe.recipe import Recipe
from tests.makers.refused import refused, unplaced


def good() -> dict[str, object]:
    return {
        "description": "A model.",
        "source": "nowhere",
        "proven": "By nobody.",
        "vllm": "0.33.0",
        "hardware": ["gb10"],
        "sparks": [1],
        "image": "example.org/vllm:1",
        "checkpoints": {
            "model": {"repo": "owner/model", "folder": "model"},
            "drafter": {"repo": "owner/drafter", "folder": "drafter"},
        },
        "served_names": ["model"],
        "args": {"max-model-len": 4096},
        "env": {"VLLM_LOGGING_LEVEL": "INFO"},
        "start_timeout": 60,
    }


def put(folder: Path, data: dict[str, object], name: str = "try") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(data, sort_keys=False, allow_unicode=True))
    return path


def loaded(folder: Path, **changes: object) -> Recipe:
    return load_recipe(str(put(folder, {**good(), **changes})))


def problems(folder: Path, **changes: object) -> list[str]:
    return unplaced(refused(loaded, folder, **changes), folder / "try.yaml")
