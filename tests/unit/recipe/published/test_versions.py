"""Which vLLM the image of a published recipe has."""

from datetime import date

import pytest

from sparkwright.recipe.published.judge import JUDGES, version_of
from tests.recipes import releases

OWN = "its image's own"


def test_every_judge_can_be_had() -> None:
    assert {*JUDGES} <= {*releases.known()}
    assert [*JUDGES.values()] == sorted(JUDGES.values())


@pytest.mark.parametrize(
    ("image", "day", "least", "vllm", "judge"),
    [
        ("vllm/vllm-openai:v0.28.0", None, None, "0.28.0", "0.28.0"),
        ("vllm/vllm-openai:v0.24.0-ubuntu2404", None, None, "0.24.0", "0.24.0"),
        ("vllm/vllm-openai:v0.26.0", None, None, "0.26.0", "0.27.1"),
        ("a/b:latest", date(2026, 6, 13), None, OWN, "0.23.0"),
        ("a/b:nightly-20260704", date(2026, 10, 1), None, OWN, "0.24.0"),
        ("nvcr.io/nvidia/vllm:26.04-py3", None, None, OWN, "0.18.0"),
        # The tag follows releases: the newest of that day, not the next one.
        ("vllm/vllm-openai:latest", date(2026, 8, 21), None, OWN, "0.27.1"),
        ("vllm/vllm-openai:nightly", date(2026, 8, 21), None, OWN, "0.28.0"),
        ("vllm/vllm-openai:latest", date(2026, 5, 1), "0.27.0", OWN, "0.27.1"),
        ("a/b:latest", None, "0.27.0", OWN, None),
    ],
)  # fmt: skip
def test_what_is_known(image, day, least, vllm, judge):
    assert version_of(image, day, least) == (vllm, judge)
