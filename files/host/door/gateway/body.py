"""Requests: their bytes in flight are bounded, and their bodies taken by the forms of `forms`."""

import json
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NoReturn

from host.door.gateway.forms import DROPPED, FIELDS, NAME, WORDS, Form, Kinds

# Bytes of all requests in flight, and of those of one key: with what LiteLLM makes of them, the
# process stays below its unit's MemoryMax.
ALL, EACH = 128 << 20, 32 << 20
# Bytes that LiteLLM takes for a value, about, while a request is in flight.
VALUE = 512
# Values of a body, and how deep they may lie in each other. LiteLLM works on each for some
# microseconds, while nobody else is served; a conversation of 2,000 messages has 14,000.
VALUES, DEPTH = 30_000, 64
# Characters of a key, and of a number.
_KEY, _DIGITS = 256, 40
_STRING = re.compile('"[^"]*"?')


class RefusedRequest(Exception):
    """A request that no engine gets. Its message holds nothing of the body but names.

    Attributes:
        place: Where in the body.
    """

    def __init__(self, why: str, place: str | None = None, status: int = 400) -> None:
        super().__init__(why)
        self.place, self.status = place, status


class Intake:
    """The bytes of requests in flight, by the name of their key."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()

    def take(self, name: str, size: int) -> ExitStack:
        """Count so many bytes more, until what this returns is closed.

        Raises:
            RefusedRequest: There is no room.
        """
        if self._held[name] + size > EACH:
            why = "Too many bytes of this key's requests are in flight: wait for answers."
            raise RefusedRequest(why, status=429)
        if self._held.total() + size > ALL:
            raise RefusedRequest("Too many bytes of requests are in flight.", status=503)
        self._held[name] += size
        taken = ExitStack()
        taken.callback(self._held.subtract, {name: size})
        return taken


def _refuse(expected: str, place: str) -> NoReturn:
    raise RefusedRequest(f"{place}: expected {expected}", place)


@dataclass(frozen=True)
class JudgedBody:
    """A body as LiteLLM gets it.

    Attributes:
        values: Their number, about; LiteLLM takes memory for each.
    """

    model: str
    values: int
    body: bytes


def judged(path: str, body: bytes) -> JudgedBody:
    """Return a body in its one meaning, without what says nothing to an engine.

    Raises:
        RefusedRequest: LiteLLM could not take it, or would take it for an order.
    """
    try:
        text = body.decode()
        values = _bounded(text)
        found = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=lambda digits: int(_short(digits)),
            parse_constant=_no_constant,
            parse_float=lambda digits: float(_short(digits)),
        )
        if not isinstance(found, dict):
            raise TypeError
        passed = _passed(path, found)
        # A half of a surrogate pair has no bytes.
        dumped = json.dumps(passed, allow_nan=False, ensure_ascii=False).encode()
        return JudgedBody(passed["model"], values, dumped)
    except (ValueError, TypeError, RecursionError):
        raise RefusedRequest("the body is no JSON object") from None


def _bounded(text: str) -> int:
    """Return about how many values a text of JSON has, before they are made."""
    bare = text.replace(r"\\", "").replace(r"\"", "")
    # Each value has two quotes at most, and its key two: a pattern would take seconds to find more.
    values = bare.count('"') // 4
    if values <= VALUES:
        bare = _STRING.sub("", bare)
        values = sum(map(bare.count, ",[{"))
    if values > VALUES:
        raise RefusedRequest(f"found more than {VALUES} values; expected {VALUES} at most")
    depth = 0
    for sign in re.findall(r"[][{}]", bare):
        depth += 1 if sign in "[{" else -1
        if depth > DEPTH:
            raise RefusedRequest(f"found more than {DEPTH} levels; expected {DEPTH} at most")
    return values


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RefusedRequest("found a key twice in one object; expected it once")
    if any(len(key) > _KEY for key in found):
        raise RefusedRequest(f"found a key of more than {_KEY} characters; expected {_KEY} at most")
    return found


def _no_constant(word: str) -> NoReturn:
    raise ValueError(word)


def _short(digits: str) -> str:
    if len(digits) > _DIGITS:
        raise RefusedRequest(
            f"found a number of more than {_DIGITS} digits; expected {_DIGITS} at most"
        )
    return digits


def _passed(path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    fields = FIELDS[path]
    found = {name: value for name, value in body.items() if value is not None}
    for name in found:
        if not {name, f"{name}?"} & fields.keys() and name not in DROPPED:
            why = f"unknown field: {name}. The gateway takes OpenAI's, Anthropic's and vLLM's."
            raise RefusedRequest(why, name)
    return _keys(fields, found, "")


def _keys(form: Mapping[str, Form], value: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return what is passed on of an object."""
    passed = {}
    for each, of_key in form.items():
        key = each.removesuffix("?")
        if value.get(key) is not None:
            passed[key] = _taken(of_key, value[key], f"{place}{key}")
        elif key == each:
            _refuse("it", f"{place}{key}")
        elif key in value:
            passed[key] = None
    return passed


def _taken(form: Form, value: Any, place: str) -> Any:
    """Return what is passed on of a value."""
    if isinstance(form, tuple):
        form = next((each for each in form if type(value) in _types(each)[0]), form[-1])
    types, expected = _types(form)
    if (
        type(value) not in types
        or (form == "name" and len(value) > NAME)
        or (form == "data" and not value.startswith("data:"))
    ):
        _refuse(expected, place)
    if isinstance(form, list):
        return [_taken(form[0], each, f"{place}[{n}]") for n, each in enumerate(value)]
    if isinstance(form, Kinds):
        kind = value.get("type", form.default)
        if not isinstance(kind, str) or kind not in form.forms:
            _refuse(f"one of {', '.join(form.forms)}", f"{place}.type")
        said = {"type": kind} if "type" in value else {}
        return said | _keys(form.forms[kind], value, f"{place}.")
    return _keys(form, value, f"{place}.") if isinstance(form, dict) else value


def _types(form: Form) -> tuple[tuple[type, ...], str]:
    """Return the types that a form's values have, and what a message expects."""
    if isinstance(form, str):
        return WORDS[form]
    return ((list,), "a list") if isinstance(form, list) else ((dict,), "an object")
