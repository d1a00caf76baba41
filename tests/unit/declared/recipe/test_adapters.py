"""LoRA adapters: which a recipe may have, and the names that they are served under."""

import json
from pathlib import Path

import pytest

from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.declared.recipe.trust import needs
from sparkwright.plan.release.command import Ranks, serve_arguments
from tests.makers.recipe import loaded, problems

CHECKPOINTS = {
    "model": {"repo": "owner/model", "folder": "model"},
    "maths": {"repo": "owner/maths-lora", "folder": "maths"},
}
PAIR = json.dumps({"name": "maths", "path": "${maths}/v2", "base_model_name": "model"})


def args(*adapters: object, **more: object) -> dict[str, object]:
    return {"enable-lora": True, "lora-modules": [*adapters]} | more


def recipe(folder: Path, modules: object) -> Recipe:
    settings = {"enable-lora": True, "lora-modules": modules, "max-model-len": 4096}
    return loaded(folder, checkpoints=CHECKPOINTS, args=settings)


@pytest.mark.parametrize(
    ("modules", "words"),
    [
        (["maths=${maths}"], ["maths=/models/maths"]),
        ("maths=${maths}/v2", ["maths=/models/maths/v2"]),
        ([PAIR], [PAIR.replace("${maths}", "/models/maths")]),
        (
            {"name": "maths", "path": "${maths}"},
            ['{"name":"maths","path":"/models/maths"}'],
        ),
    ],
)
def test_an_adapter_that_is_a_checkpoint_needs_no_trust(
    tmp_path: Path, modules: object, words: list[str]
) -> None:
    found = recipe(tmp_path, modules)
    assert list(needs(found)) == []
    line = serve_arguments(found, Ranks())
    start = line.index("--lora-modules") + 1
    assert line[start : start + len(words)] == words
    names = line[line.index("--served-model-name") + 1 :]
    assert names[0] == "model"
    assert "maths" not in names
    assert found.models == {"model": "owner/model", "maths": "owner/maths-lora"}
    assert [*found.whole_models] == ["model"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (args("x=/root/.cache/x"), 'lora-modules: x: found "/root/.cache/x"; expected an adapter'),
        (args("x=owner/lora"), 'lora-modules: x: found "owner/lora"; expected an adapter among'),
        (args("x=${model}"), 'lora-modules: x: found "${model}"; expected an adapter among the re'),
        (args("x=${maths}/../../etc"), 'lora-modules: x: found "${maths}/../../etc"; expected'),
        (args("x=a${maths}"), 'lora-modules: x: found "a${maths}"; expected an adapter among the'),
        (args("model=${maths}"), "lora-modules: model: found a name that is taken; expected each"),
        (args("x=${maths}", "x=${maths}"), "lora-modules: x: found a name that is taken; expected"),
        (args("-x=${maths}"), "lora-modules: found "),
        (args(PAIR.replace('"model"', '"other"')), 'lora-modules: maths: found the base model "ot'),
        (args('{"name": "x", "path": "${maths}", "code": 1}'), "lora-modules: found "),
        ({"lora-modules": ["x=${maths}"]}, "enable-lora: found it off; expected true, beside lora"),
        (
            {"enable-lora": True, "default-mm-loras": {"image": "${maths}"}},
            "default-mm-loras: found adapters for kinds of media; expected lora-modules",
        ),
    ],
)
def test_any_other_is_refused(tmp_path: Path, changes: object, expected: str) -> None:
    found = problems(tmp_path, checkpoints=CHECKPOINTS, args=changes)
    assert any(each.startswith(f"args.{expected}") for each in found), found


def test_they_do_not_depend_on_the_number_of_sparks_nor_come_at_run_time(tmp_path: Path) -> None:
    by_sparks = {1: {"args": {"lora-modules": ["x=${maths}"]}}}
    (found,) = problems(tmp_path, checkpoints=CHECKPOINTS, by_sparks=by_sparks)
    assert found.startswith("by_sparks.1.args.lora-modules: found adapters; expected them in the")
    (need,) = needs(loaded(tmp_path, env={"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}))
    assert need.name == "VLLM_ALLOW_RUNTIME_LORA_UPDATING"
