"""Which vLLM the image of a published recipe has."""

from datetime import date

import pytest

from sparkwright.recipe.published.versions import JUDGES, version_of
from tests.recipes import releases

OWN = "its image's own"


def test_every_judge_can_be_had() -> None:
    assert {judge for judge, _ in JUDGES} <= {*releases.known()}
    assert [*JUDGES] == sorted(JUDGES, key=lambda judge: judge[1])


@pytest.mark.parametrize(
    ("image", "said", "day", "least", "vllm", "judge"),
    [
        ("vllm/vllm-openai:v0.28.0", None, None, None, "0.28.0", "0.28.0"),
        ("vllm/vllm-openai:v0.24.0-ubuntu2404", None, None, None, "0.24.0", "0.24.0"),
        ("vllm/vllm-openai:v0.26.0", None, None, None, "0.26.0", "0.27.1"),
        ("a/b:latest", "0.28.0", date(2026, 4, 1), None, "0.28.0", "0.28.0"),
        ("a/b:latest", "0.23.1rc1.dev790+g85d955ed5.d20260705", None, None,
         "0.23.1rc1.dev790+g85d955ed5.d20260705", "0.23.0"),
        ("a/b:latest", "0.1.dev20482+g83cb22a0e.d20260903", None, None, OWN, "0.28.0"),
        ("a/b:latest", None, date(2026, 6, 13), None, OWN, "0.23.0"),
        ("a/b:nightly-20260704", None, date(2026, 10, 1), None, OWN, "0.24.0"),
        ("nvcr.io/nvidia/vllm:26.04-py3", None, None, None, OWN, "0.18.0"),
        # The tag follows releases: the newest of that day, not the next one.
        ("vllm/vllm-openai:latest", None, date(2026, 8, 21), None, OWN, "0.27.1"),
        ("vllm/vllm-openai:nightly", None, date(2026, 8, 21), None, OWN, "0.28.0"),
        ("vllm/vllm-openai:latest", None, date(2026, 5, 1), "0.27.0", OWN, "0.27.1"),
        ("a/b:latest", None, None, "0.27.0", OWN, None),
        ("a/b:latest", "main", None, None, OWN, None),
    ],
)  # fmt: skip
def test_what_is_known(image, said, day, least, vllm, judge):
    version = version_of(image, said, day, least)
    assert (version.vllm, version.judge) == (vllm, judge)
