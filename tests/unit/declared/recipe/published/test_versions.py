"""Which vLLM the image of a published recipe has, and which release judges it."""

import pytest

from sparkwright.declared.recipe.published.judge import JUDGES, version_of
from tests.recipes import releases

OWN = "its image's own"


def test_every_judge_can_be_had() -> None:
    assert {*JUDGES} <= {*releases.known()}


@pytest.mark.parametrize(
    ("image", "vllm", "judge"),
    [
        ("vllm/vllm-openai:v0.28.0", "0.28.0", "0.28.0"),
        ("vllm/vllm-openai:v0.24.0-ubuntu2404", "0.24.0", "0.24.0"),
        ("vllm/vllm-openai:v0.26.0", "0.26.0", "0.27.1"),
        (f"vllm/vllm-openai:v0.24.0@sha256:{'a' * 64}", "0.24.0", "0.24.0"),
        ("a/b:latest", OWN, "0.33.0"),
        ("nvcr.io/nvidia/vllm:26.04-py3", OWN, "0.33.0"),
        ("vllm/vllm-openai:latest", OWN, "0.33.0"),
    ],
)
def test_a_tag_that_names_a_release_decides(image: str, vllm: str, judge: str) -> None:
    assert version_of(image) == (vllm, judge)
