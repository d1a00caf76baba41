"""The shapes of what a request says: messages, their parts, tools.

A shape takes a value and its place in the body, and returns what is passed on of it: known keys
alone. What LiteLLM cannot take, it would search and log as a text, for minutes; what names an
address, it would fetch.
"""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

Shape = Callable[[Any, str], Any]
# Characters of a name: of a model, a function, a call, a role.
_NAME = 256


class RefusedBody(Exception):
    """A request that no engine gets; it says why, and shows nothing that it holds but names.

    Attributes:
        place: Where in its body.
    """

    def __init__(self, why: str, place: str | None = None) -> None:
        super().__init__(why)
        self.place = place


def refuse(expected: str, place: str) -> NoReturn:
    """Refuse a value."""
    raise RefusedBody(f"{place}: expected {expected}", place)


def _of(expected: str, *types: type) -> Shape:
    def shape(value: Any, place: str) -> Any:
        return value if type(value) in types else refuse(expected, place)

    return shape


text, flag = _of("text", str), _of("true or false", bool)
whole, number = _of("a whole number", int), _of("a number", int, float)
mapping = _of("an object", dict)


def name(value: Any, place: str) -> Any:
    """Take a short text."""
    if not isinstance(value, str) or len(value) > _NAME:
        refuse(f"a name of at most {_NAME} characters", place)
    return value


def data(value: Any, place: str) -> Any:
    """Take media that the request brings along: the gateway fetches nothing."""
    if not isinstance(value, str) or not value.startswith("data:"):
        refuse("a data: URL, with the content in it; addresses are not fetched", place)
    return value


def many(shape: Shape) -> Shape:
    """Return the shape of a list."""

    def listed(value: Any, place: str) -> Any:
        if not isinstance(value, list):
            refuse("a list", place)
        return [shape(each, f"{place}[{index}]") for index, each in enumerate(value)]

    return listed


def either(*shapes: tuple[type, Shape]) -> Shape:
    """Return the shape of a value that may be of several types, by these."""

    def chosen(value: Any, place: str) -> Any:
        for kind, shape in shapes:
            if type(value) is kind:
                return shape(value, place)
        _, last = shapes[-1]
        return last(value, place)

    return chosen


def record(needed: Mapping[str, Shape], **more: Shape) -> Shape:
    """Return the shape of an object: keys that it must have, and those that it may have."""
    shapes = {**needed, **more}

    def recorded(value: Any, place: str) -> Any:
        if not isinstance(value, dict):
            refuse("an object", place)
        for key in needed:
            if value.get(key) is None:
                refuse("it", f"{place}.{key}")
        return {
            key: None if value[key] is None else shape(value[key], f"{place}.{key}")
            for key, shape in shapes.items()
            if key in value
        }

    return recorded


def kinds(default: str = "", /, **by_type: Shape) -> Shape:
    """Return the shape of an object whose `type` says what else it has."""

    def tagged(value: Any, place: str) -> Any:
        found = (
            value.get("type", default) if isinstance(value, dict) else refuse("an object", place)
        )
        if not isinstance(found, str) or found not in by_type:
            refuse(f"one of {', '.join(by_type)}", f"{place}.type")
        said = {"type": found} if "type" in value else {}
        return said | by_type[found](value, place)

    return tagged


def _said(part: Shape) -> Shape:
    return either((str, text), (list, many(part)))


_words = record({"text": text})
_url = either((str, data), (dict, record({"url": data}, detail=name)))
_thought = record({"thinking": text}, signature=text)
_hidden = record({"data": text})
_media = {
    "image_url": record({"image_url": _url}, uuid=name),
    "video_url": record({"video_url": _url}, uuid=name),
    "audio_url": record({"audio_url": _url}, uuid=name),
    "input_audio": record({"input_audio": record({"data": text, "format": name})}),
}
_part = kinds(text=_words, refusal=record({"refusal": text}), thinking=_thought, **_media)
_call = record({"name": name, "arguments": text})
_calls = many(record({"function": _call}, id=name, type=name))
_role = {"role": name}
# OpenAI's; an assistant's may have calls in place of content.
messages = many(
    record(
        _role,
        content=_said(_part),
        name=name,
        tool_calls=_calls,
        tool_call_id=name,
        function_call=_call,
        refusal=text,
        reasoning=text,
        reasoning_content=text,
    )
)
_described = {"description": text, "parameters": mapping, "strict": flag}
_function = record({"name": name}, **_described)
tools = many(kinds(function=record({"function": _function})))
functions = many(_function)

_source = kinds(base64=record({"media_type": name, "data": text}))
_image = record({"source": _source})
_texts = kinds(text=_words)
_result = record(
    {"tool_use_id": name}, content=_said(kinds(text=_words, image=_image)), is_error=flag
)
_block = kinds(
    text=_words,
    image=_image,
    tool_use=record({"id": name, "name": name, "input": mapping}),
    tool_result=_result,
    thinking=_thought,
    redacted_thinking=_hidden,
)
anthropic_messages = many(record({**_role, "content": _said(_block)}))
anthropic_tools = many(
    kinds("custom", custom=record({"name": name, "input_schema": mapping}, description=text))
)
system = _said(_texts)

_input = kinds(
    input_text=_words,
    output_text=_words,
    text=_words,
    refusal=record({"refusal": text}),
    input_image=record({"image_url": data}, detail=name),
)
_thoughts = many(kinds(summary_text=_words, reasoning_text=_words))
items = many(
    kinds(
        "message",
        message=record({**_role, "content": _said(_input)}, id=name, status=name),
        function_call=record(
            {"call_id": name, "name": name, "arguments": text}, id=name, status=name
        ),
        function_call_output=record(
            {"call_id": name, "output": _said(_input)}, id=name, status=name
        ),
        reasoning=record({}, id=name, summary=_thoughts, content=_thoughts, encrypted_content=text),
    )
)
response_tools = many(kinds(function=_function))
responses_input = either((str, text), (list, items))

texts = either((str, text), (list, many(text)))
# Names and texts, or what says more of them.
choice = either((str, name), (dict, mapping))
documents = many(either((str, text), (dict, _words)))
