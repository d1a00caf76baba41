"""Tool calling over HTTP, as an agent does it: calls, results, and an answer made of them."""

import json

import pytest

from sparkwright.plan.release.release import Release
from sparkwright.run.spark import SparkTarget
from sparkwright.verify import tools
from sparkwright.verify.plugin import Api, Proved
from sparkwright.verify.test_engine import chat, chunks


@pytest.fixture
def agent(release: Release, target: SparkTarget) -> str:
    """Who decides what to call; skip where that can prove nothing."""
    if not release.recipe.options.enable_auto_tool_choice:
        pytest.skip(f"recipe {release.recipe.name} does not set enable-auto-tool-choice")
    if target.hardware_class != "lab":
        return "model"
    if target.is_group:
        pytest.skip("scripted text takes the same way on one virtual Spark, in a tenth of the time")
    return "script (its model cannot)"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("story", tools.STORIES, ids=lambda story: story.name.replace(" ", "-"))
def test_tool_calls(
    agent: str, api: Api, release: Release, proved: Proved, story: tools.Story, stream: bool
) -> None:
    """A lab's answers are scripted: they prove the way of a call, and nothing of a model."""

    def ask() -> tools.Json:
        # Without thinking, none of these answers takes 200 tokens.
        body = chat(release, messages=messages, tools=tools.TOOLS, max_tokens=1024, stream=stream)
        answer = api("/v1/chat/completions", body)
        return tools.assemble(chunks(answer)) if stream else json.loads(answer)["choices"][0]

    messages = tools.opening(story)
    for step in story.steps:
        choice = ask()
        assert not tools.problems(choice, step)
        messages += tools.results(choice, step)
    assert not tools.answer_problems(ask(), story)
    calls = ", ".join(call.name for step in story.steps for call in step)
    how = "streamed" if stream else "whole"
    proved(f"tools, {story.name}, {how}: {calls}, as asked; chosen by the {agent}")
