"""Tool calling: what is asked, and whether an answer calls the right tool with the right arguments.

A wrong parser answers with HTTP 200 as well, and with empty arguments, or with the call as plain
text. So what counts is what the calls say.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkwright.common import yaml

Json = dict[str, Any]
# What models are asked: tools and stories here, texts in other modules.
ASKED = yaml.load(Path(__file__).with_name("asked.yaml"))


@dataclass(frozen=True)
class Call:
    """A call that must come, and what the tool then answers."""

    name: str
    arguments: Json
    result: Json

    def __str__(self) -> str:
        return f"{self.name}({json.dumps(self.arguments, sort_keys=True)})"


@dataclass(frozen=True)
class Story:
    """A question, its steps (the calls of one message each), and words that only results told."""

    name: str
    question: str
    steps: tuple[tuple[Call, ...], ...]
    answer: tuple[str, ...]


def _story(name: str, question: str, steps: list[list[Json]], answer: list[str]) -> Story:
    calls = tuple(tuple(Call(**each) for each in step) for step in steps)
    return Story(name, question, calls, tuple(answer))


TOOLS = [{"type": "function", "function": each} for each in ASKED["tools"]]
STORIES = [_story(**each) for each in ASKED["stories"]]


def opening(story: Story) -> list[Json]:
    """Return the messages that a story begins with."""
    words = {"system": ASKED["system"], "user": story.question}
    return [{"role": role, "content": content} for role, content in words.items()]


def assemble(chunks: Iterable[Json]) -> Json:
    """Return the choice that the chunks of a stream make up, as one whole answer has it."""
    message: Json = {"role": "assistant", "content": ""}
    calls: dict[int, Json] = {}
    reason = None
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        delta = choice["delta"]
        message["content"] += delta.get("content") or ""
        reason = choice.get("finish_reason") or reason
        for part in delta.get("tool_calls") or ():
            empty = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            call = calls.setdefault(part["index"], empty)
            call["id"] += part.get("id") or ""
            for key, text in (part.get("function") or {}).items():
                call["function"][key] += text or ""
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return {"message": message, "finish_reason": reason}


def problems(choice: Json, step: Sequence[Call]) -> list[str]:
    """List what is wrong with an answer that must make the calls of a step, in any order."""
    calls = choice["message"].get("tool_calls") or []
    if not calls:
        return [f"no tool call, but the text {choice['message'].get('content')!r}"]
    found = []
    made, expected = sorted(map(_made, calls)), sorted(map(str, step))
    if made != expected:
        found.append(f"calls {made}; expected {expected}")
    if len({call.get("id") for call in calls} - {None, ""}) < len(calls):
        found.append("calls without an id of their own")
    if choice["finish_reason"] != "tool_calls":
        found.append(f"finish_reason is {choice['finish_reason']}, not tool_calls")
    return found


def answer_problems(choice: Json, story: Story) -> list[str]:
    """List what is wrong with the answer that ends a story."""
    content = choice["message"].get("content") or ""
    if choice["message"].get("tool_calls"):
        return ["one more tool call"]
    missing = [word for word in story.answer if word not in content]
    return [f"no {word} in the answer {content!r}" for word in missing]


def results(choice: Json, step: Sequence[Call]) -> list[Json]:
    """Return the messages that follow an answer without problems: itself, and its results."""
    calls = choice["message"]["tool_calls"]
    results = {str(each): json.dumps(each.result) for each in step}
    messages = [{"role": "assistant", "content": None, "tool_calls": calls}]
    for call in calls:
        content = results[_made(call)]
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
    return messages


def _made(call: Json) -> str:
    """Return a call as `Call` shows it, where 1 and true do not look alike."""
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    try:
        return str(Call(name, json.loads(arguments), {}))
    except (TypeError, ValueError):
        return f"{name}({arguments!r}), which is no JSON"
