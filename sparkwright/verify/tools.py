"""Tool calling: what is asked, and whether an answer calls the right tool with the right arguments.

A wrong parser answers with HTTP 200 as well, and with empty arguments, or with the call as plain
text. So what counts is what the calls say.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

SYSTEM = (
    "Use the tools. Never guess what a tool can tell: call it, and wait for its result before a "
    "call that depends on it. Answer in one short sentence once you have what you need."
)


@dataclass(frozen=True)
class Call:
    """A call that must come, and what the tool then answers."""

    name: str
    arguments: Json
    result: Json


@dataclass(frozen=True)
class Story:
    """A question, the calls that it takes, and what the answer must then hold.

    Attributes:
        steps: the calls of one message each, which are independent of one another.
        answer: words that only the results told.
    """

    name: str
    question: str
    steps: tuple[tuple[Call, ...], ...]
    answer: tuple[str, ...]


def _tool(name: str, description: str, /, **properties: Json) -> Json:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    function = {"name": name, "description": description, "parameters": schema}
    return {"type": "function", "function": function}


_TEXT, _WHOLE = {"type": "string"}, {"type": "integer"}
TOOLS = [
    _tool(
        "get_weather",
        "The weather in one city, now.",
        city={"type": "string", "description": "the name of the city alone"},
        unit={"type": "string", "enum": ["celsius", "fahrenheit"]},
    ),
    _tool("find_person", "A person's e-mail address.", name=_TEXT),
    _tool(
        "send_message",
        "Send an e-mail.",
        to={"type": "array", "items": _TEXT, "description": "e-mail addresses"},
        subject=_TEXT,
        urgent={"type": "boolean"},
    ),
    _tool("get_order", "Item and quantity of an order.", number=_WHOLE),
    _tool("get_stock", "How many of an item are in stock.", item=_TEXT),
    _tool("reorder", "Order more of an item.", item=_TEXT, quantity=_WHOLE),
]


def _weather(city: str, temperature: int) -> Call:
    arguments = {"city": city, "unit": "celsius"}
    return Call("get_weather", arguments, {"city": city, "temperature": temperature})


_ADDRESS, _ITEM = "ak.7291@example.org", "T-310"
STORIES = [
    Story(
        "one call",
        "What is the temperature in Szeged now, in degrees Celsius?",
        ((_weather("Szeged", 31),),),
        ("31",),
    ),
    Story(
        "parallel calls",
        "What are the temperatures in Oslo and in Lisbon now, in degrees Celsius? "
        "Make both calls at once, in one message.",
        ((_weather("Oslo", 17), _weather("Lisbon", 28)),),
        ("17", "28"),
    ),
    Story(
        "chained calls",
        "Find the e-mail address of Anna Kovacs, then send her an urgent message with the subject "
        "'Meeting at 9'. Tell me the receipt.",
        (
            (Call("find_person", {"name": "Anna Kovacs"}, {"email": _ADDRESS}),),
            (
                Call(
                    "send_message",
                    {"to": [_ADDRESS], "subject": "Meeting at 9", "urgent": True},
                    {"receipt": "M-5530"},
                ),
            ),
        ),
        ("M-5530",),
    ),
    Story(
        "several steps",
        "Look up order 4711, then how many of its item are in stock. Fewer are in stock than the "
        "order needs: reorder exactly as many as are missing. Tell me the confirmation.",
        (
            (Call("get_order", {"number": 4711}, {"item": _ITEM, "quantity": 9}),),
            (Call("get_stock", {"item": _ITEM}, {"item": _ITEM, "in_stock": 4}),),
            (Call("reorder", {"item": _ITEM, "quantity": 5}, {"confirmation": "R-8842"}),),
        ),
        ("R-8842",),
    ),
]

_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": int | float,
    "boolean": bool,
    "array": list,
    "object": dict,
}


def opening(story: Story) -> list[Json]:
    """Return the messages that a story begins with."""
    return [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": story.question},
    ]


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
    """List what is wrong with an answer that must make the calls of a step, and no other.

    Args:
        choice: of the answer: message and finish_reason.
        step: the calls, in any order.
    """
    calls = choice["message"].get("tool_calls") or []
    if not calls:
        return [f"no tool call, but the text {choice['message'].get('content')!r}"]
    found = [problem for call in calls for problem in _call_problems(call)]
    if len({call.get("id") for call in calls} - {None, ""}) < len(calls):
        found.append("calls without an id of their own")
    if choice["finish_reason"] != "tool_calls":
        found.append(f"finish_reason is {choice['finish_reason']}, not tool_calls")
    if not found:
        made, expected = (
            [_made(call) for call in calls],
            [(call.name, call.arguments) for call in step],
        )
        if sorted(made, key=str) != sorted(expected, key=str):
            found.append(f"calls {made}; expected {expected}")
    return found


def answer_problems(choice: Json, story: Story) -> list[str]:
    """List what is wrong with the answer that ends a story."""
    content = choice["message"].get("content") or ""
    if choice["message"].get("tool_calls"):
        return ["one more tool call"]
    missing = [word for word in story.answer if word not in content]
    return [f"no {word} in the answer {content!r}" for word in missing]


def results(choice: Json, step: Sequence[Call]) -> list[Json]:
    """Return the messages that go on from an answer without problems: itself, and its results."""
    calls = choice["message"]["tool_calls"]
    messages = [{"role": "assistant", "content": None, "tool_calls": calls}]
    for call in calls:
        asked = next(each for each in step if (each.name, each.arguments) == _made(call))
        result = json.dumps(asked.result)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return messages


def _call_problems(call: Json) -> list[str]:
    function = call["function"]
    tool = next((tool for tool in TOOLS if tool["function"]["name"] == function["name"]), None)
    if tool is None:
        return [f"a call of {function['name']!r}, which is no tool"]
    try:
        arguments = json.loads(function["arguments"])
    except (TypeError, ValueError):
        return [f"{function['name']}: arguments {function['arguments']!r} are no JSON"]
    return list(_misfits(arguments, tool["function"]["parameters"], function["name"]))


def _misfits(value: Any, schema: Json, where: str) -> Iterator[str]:
    """Say where a value does not fit its JSON schema, of which TOOLS uses a few words."""
    kind = schema["type"]
    if not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        yield f"{where}: {value!r} is no {kind}"
    elif kind == "object":
        for name in schema["required"]:
            if name not in value:
                yield f"{where}: no {name}"
        for name, item in value.items():
            if name not in schema["properties"]:
                yield f"{where}: {name}, which it does not take"
            else:
                yield from _misfits(item, schema["properties"][name], f"{where}.{name}")
    elif kind == "array":
        for item in value:
            yield from _misfits(item, schema["items"], where)
    elif value not in schema.get("enum", [value]):
        yield f"{where}: {value!r} is none of {', '.join(schema['enum'])}"


def _made(call: Json) -> tuple[str, Any]:
    return call["function"]["name"], json.loads(call["function"]["arguments"])
