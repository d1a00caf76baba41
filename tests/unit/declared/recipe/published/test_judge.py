"""What the nearest vLLM says of a published recipe's names, and what nobody can say."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sparkwright.common.errors import PlanError
from sparkwright.declared.recipe.published.translated import JUDGES, Translated
from tests.makers.refused import refused
from tests.published import published
from tests.recipes import releases

STOCK = "vllm/vllm-openai:v0.28.0"
TEXT = """\
recipe_version: "2"
model: owner/Model
container: %s
%s
env: {VLLM_NOBODYS: '1'}
command: |
  vllm serve owner/Model \\
    --seed 1 \\
    %s
"""
Read = Callable[..., Translated]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Return a function that translates a recipe with an image, words and a mod."""

    def translate(image: str, words: str, mod: str | None = None) -> Translated:
        path = tmp_path / "x.yaml"
        path.write_text(TEXT % (image, "mods: [mods/add]" if mod else "", words))
        folder = tmp_path / "mods/add"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "run.sh").write_text("patch -p1 < add.patch\n")
        (folder / "add.patch").write_text(f"+    {mod}: int = 0\n")
        return published(path)

    return translate


@pytest.mark.parametrize(
    ("image", "words", "found"),
    [
        (STOCK, "--nobodys-option 1", "vLLM 0.28.0 lacks it; expected one of"),
        (STOCK, "--max-model-length 1", "did you mean 'max-model-len'?"),
        ("docker.io/vllm/vllm-openai:v0.26.0", "-cc.mode 3 --nobodys-option 1", "vLLM 0.27.1"),
        ("vllm/vllm-openai:v0.24.0-ubuntu2404", "--nobodys-option 1", "vLLM 0.24.0"),
        (f"vllm/vllm-openai:v0.24.0@sha256:{'a' * 64}", "--nobodys-option 1", "vLLM 0.24.0"),
        # What it has no more.
        ("vllm/vllm-openai:v0.33.0", "--swap-space 4", "lacks it"),
    ],
)
def test_what_no_vllm_has_is_refused_with_its_line(read, image, words, found):
    (problem,) = refused(read, image, words)
    assert "x.yaml:9: args." in problem
    assert found in problem


@pytest.mark.parametrize(
    ("image", "mod", "why", "by"),
    [
        ("example.org/vllm:1", None, "the image's own vLLM is not known", "0.33.0"),
        ("vllm/vllm-openai:qwen38", None, "the image's own vLLM is not known", "0.33.0"),
        ("vllm-node", None, "the image's own vLLM is not known", "0.33.0"),
        (STOCK, "nobodys_option", "a mod names it", "0.28.0"),
        (STOCK, "'--nobodys-option'", "a mod names it", "0.28.0"),
    ],
)
def test_what_another_vllm_may_have_is_not_judged(
    read: Read, image: str, mod: str | None, why: str, by: str
) -> None:
    found = read(image, "--nobodys-option 1", mod)
    assert "nobodys-option" in found.data["unjudged"]
    assert found.data["judged_by"] == by
    (remark,) = [each for each in found.remarks if "x.yaml:9: args.nobodys-option" in each]
    assert "not judged" in remark
    assert why in remark
    if mod:
        # A mod that adds something else explains nothing.
        with pytest.raises(PlanError, match=r"args\.nobodys-option: found it"):
            read(image, "--nobodys-option 1", "another_option")


def test_an_option_that_is_turned_off_by_another_word(read: Read) -> None:
    words = "--no-enable-flashinfer-autotune"
    assert read(STOCK, words).data["args"]["enable-flashinfer-autotune"] is False
    with pytest.raises(PlanError, match="expected --disable-flashinfer-autotune"):
        read("vllm/vllm-openai:v0.33.0", words)


def test_variables_that_vllm_passes_over(read: Read) -> None:
    """vLLM warns of them, and starts."""
    found = read(STOCK, "--seed 2")
    assert found.data["unjudged"] == []
    (remark,) = found.remarks
    assert remark.endswith("env.VLLM_NOBODYS: vLLM 0.28.0 lacks it, and passes over it")
    assert read("example.org/vllm:1", "--seed 2").data["unjudged"] == ["VLLM_NOBODYS"]


def test_every_judge_can_be_had() -> None:
    assert {*JUDGES} <= {*releases.known()}
