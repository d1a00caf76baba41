"""The vLLM that a recipe names takes every line that its units would run."""

import json
from pathlib import Path

import pytest
import yaml

from sparkwright.common.hardware import HARDWARE
from sparkwright.declared.recipe.loader import RECIPES, recipe_names
from tests.recipes.__main__ import main
from tests.recipes.choices import CHOICES, Choice, recipe_of
from tests.recipes.conftest import BROKEN, Verdict
from tests.recipes.inside.gpu import GPUS
from tests.recipes.judge import Case, judge


@pytest.mark.parametrize("name", recipe_names())
def test_vllm_takes_the_recipe(verdict: Verdict, name: str) -> None:
    found = verdict(name)
    assert found
    for case, problems in found.items():
        assert not problems
        # What only a fork has, its configuration needs as well.
        known = not case.unknown_models or case.recipe.unjudged
        assert known, f"run: python -m tests.recipes.add_model {name}"


@pytest.mark.parametrize("name", BROKEN)
def test_vllm_refuses_a_broken_copy(verdict: Verdict, name: str) -> None:
    mistake = BROKEN[name]
    told = {problem for problems in verdict(name).values() for problem in problems}
    assert len(told) == 1, told
    file, key, words = told.pop().split(": ", 2)
    assert Path(file).name == f"{name}.yaml"
    assert key == mistake["key"]
    assert words.startswith(f"found {mistake['value']}")
    assert mistake["expected"] in words


@pytest.mark.parametrize("name", ["qwen3.6-35b-nvidia", "qwen3.5-35b-sm121"])
def test_vllm_takes_adapters_as_recipes_have_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    data = yaml.safe_load((RECIPES / f"{name}.yaml").read_text())
    data["checkpoints"]["maths"] = {"repo": "owner/maths-lora", "folder": "maths"}
    second = {"name": "b", "path": "${maths}/b", "base_model_name": data["served_names"][0]}
    data["args"] |= {"enable-lora": True, "lora-modules": ["a=${maths}", json.dumps(second)]}
    file = tmp_path / "adapters.yaml"
    file.write_text(yaml.safe_dump(data))
    assert main([str(file)]) == 0, capsys.readouterr().out
    assert "parser and configuration" in capsys.readouterr().out
    file.write_text(yaml.safe_dump(data | {"args": data["args"] | {"max-lora-rank": 7}}))
    assert main([str(file)]) == 1
    assert "max-lora-rank" in capsys.readouterr().out


def test_gpus_are_those_of_the_hardware_classes() -> None:
    presented = {name: (gpu.name, gpu.memory_gib, gpu.integrated) for name, gpu in GPUS.items()}
    assert presented == {
        name: (hardware.gpu, hardware.total_gib, hardware.unified)
        for name, hardware in HARDWARE.items()
        if name != "lab"
    }


OTHERS = [each for each in CHOICES if not isinstance(each.take, str)]


@pytest.mark.parametrize("choice", OTHERS, ids=lambda each: each.take.model)
def test_the_vllm_of_a_choice_of_others_takes_its_line(choice: Choice) -> None:
    changes = {"vllm": "", "judged_by": choice.take.judge, "unjudged": [*choice.take.fork]}
    recipe = recipe_of(choice).model_copy(update=changes)
    case = Case(Path("recipe.yaml"), recipe, choice.sparks, recipe.hardware[0])
    (problems,) = judge([case]).values()
    assert not problems
