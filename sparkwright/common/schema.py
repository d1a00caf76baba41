"""Typed YAML: pydantic models whose errors are sentences that name file, key, found and expected.

``Field(description=…)`` of every field describes its values, worded to follow "expected".
"""

from __future__ import annotations

import difflib
import json
import re
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date
from functools import partial
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, ConfigDict, Tag, ValidationError
from pydantic_core import ErrorDetails

from sparkwright.common.errors import PlanError, refuse


class Model(BaseModel):
    """The base of all models of this project: immutable, without unknown keys or conversions."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


M = TypeVar("M", bound=Model)

# Names become unit instances, containers, files and pyinfra groups. 63 is a DNS label's length.
NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
NAME_RULE = (
    "a name of a-z, 0-9, '.' and '-', at most 63 long, that starts and ends with a letter or digit"
)

# Of a URL: no message shows it.
_LOGIN = re.compile(r"://[^/@\s]*@")
_NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?")
_BRANCH = re.compile("<[a-z]+>")

# Of fields that nothing describes: pydantic's words are about Python.
_EXPECTED = {
    "missing": "this key",
    "string_type": "text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "dict_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
    "list_type": "a list",
    "too_short": "at least one entry",
}

# Names that a message lists; of more, those that are the most similar.
_MOST_NAMES, _SOME_NAMES = 12, 6


def satisfying(test: Callable[[str], object], rule: str = "") -> AfterValidator:
    """Return a validator of text; `rule` follows "expected", else the field's description does."""
    return AfterValidator(partial(_checked, test, rule))


def _checked(test: Callable[[str], object], rule: str, value: str) -> str:
    if not test(value):
        raise ValueError(rule)
    return value


def matching(pattern: re.Pattern[str], rule: str = "") -> AfterValidator:
    """Return the validator of text that a pattern matches as a whole; `rule` as `satisfying`."""
    return satisfying(pattern.fullmatch, rule)


Name = Annotated[str, matching(NAME, NAME_RULE)]
Text = Annotated[str, satisfying(str.isprintable, "printable text on one line")]


def parse(
    model: type[M], data: object, source: str, show: Callable[[object], str] | None = None
) -> M:
    """Return a validated model of a file's data; a PlanError has a problem for each fault."""
    try:
        parsed = model.model_validate(data)
    except ValidationError as error:
        problems = (_sentence(model, detail, source, show or shown) for detail in error.errors())
        raise PlanError(*dict.fromkeys(problems)) from None
    refuse(
        f"{source}: {key}: found {shown(value)}; expected a number of at most 64 bits"
        for key, value in _too_large(data)
    )
    return parsed


def _too_large(data: object, key: str = "") -> Iterator[tuple[str, object]]:
    """Yield the numbers that would overflow where they are reckoned with."""
    if isinstance(data, Mapping):
        for name, value in data.items():
            yield from _too_large(value, f"{key}.{name}")
    elif isinstance(data, list | tuple):
        for place, value in enumerate(data):
            yield from _too_large(value, f"{key}[{place}]")
    elif isinstance(data, int | float) and abs(data) >= 1 << 63:
        yield key.removeprefix("."), data


def nearest(wrong: str, known: Iterable[str]) -> str:
    """Return the clause after ``found X; ``: ``did you mean 'a'? Expected one of a, b``.

    Of many names it lists the nearest. The lab's own, `lab` and `lab-…`, are for no owner: they are
    left out unless such a name was meant.
    """
    names = sorted(known)
    if not wrong.lower().startswith("lab"):
        names = [name for name in names if not name.startswith("lab")] or names
    if not names:
        return "expected nothing (there is none)"
    # Upper case and underscores are slips of their own.
    same = {_folded(name): name for name in reversed(names)}
    close = [same[each] for each in difflib.get_close_matches(_folded(wrong), same, n=1)]
    if len(names) == 1:
        return f"did you mean {names[0]!r}?" if close else f"expected {names[0]}"
    if len(names) <= _MOST_NAMES:
        expected = f"expected one of {', '.join(names)}"
    else:
        likely = difflib.get_close_matches(_folded(wrong), same, n=_SOME_NAMES, cutoff=0)
        some = ", ".join(same[each] for each in likely)
        expected = f"expected one of {len(names)} names, such as {some}"
    return f"did you mean {close[0]!r}? E{expected[1:]}" if close else expected


def _folded(name: str) -> str:
    return name.lower().replace("_", "-")


def unknown(where: str, names: Iterable[str], known: Collection[str]) -> list[str]:
    """Return a problem, for a PlanError, for each name that is not a known one."""
    return [
        f"{where}: found {name or shown(name)}; {nearest(name, known)}"
        for name in names
        if name not in known
    ]


def shown(value: object) -> str:
    """Return a value in YAML's flow style, cut to 60 characters for a message."""
    return _short(json.dumps(value, default=str, ensure_ascii=False, skipkeys=True))


def as_python(value: object) -> str:
    """Return a value in Python's syntax, cut to 60 characters for a message."""
    return _short(repr(value))


def _short(text: str) -> str:
    text = _LOGIN.sub("://***@", text)
    return text if len(text) <= 60 else text[:57] + "..."


def _sentence(
    model: type[Model], detail: ErrorDetails, source: str, show: Callable[[object], str]
) -> str:
    # A part in angle brackets is a branch of a union, and no key.
    location = tuple(part for part in detail["loc"] if not _BRANCH.fullmatch(str(part)))
    location = location or detail["loc"]
    # `--data force`: no colon after an option of the command line.
    joint = " " if source.startswith("-") else ": "
    where = f"{source}{joint}{_dotted(location)}" if location else source
    owner, expected = _lookup(model, detail["loc"])
    kind = detail["type"]
    if kind == "extra_forbidden" and "ssh_key" in owner and "password" in str(location[-1]):
        return f"{where}: found a password; expected a login by key: ssh-copy-id USER@ADDRESS"
    if kind == "extra_forbidden":
        return f"{where}: found an unknown key; {nearest(str(location[-1]), owner)}"
    if kind == "value_error":
        expected = detail["msg"].removeprefix("Value error, ") or expected
    expected = expected or _EXPECTED.get(kind, detail["msg"].removeprefix("Input should be "))
    if not expected.startswith(("expected ", "did you mean ")):
        expected = f"expected {expected}"
    if kind == "missing":
        return f"{where}: found nothing; {expected}"
    if kind == "dict_type" and expected.startswith("expected text"):
        expected = f"expected a mapping, each name to {expected.removeprefix('expected ')}"
    quoted = isinstance(detail["input"], str) and _NUMBER.fullmatch(detail["input"])
    if kind in ("int_type", "float_type") and quoted:
        expected += " (as a number: without quotes)"
    if kind == "string_type" and isinstance(detail["input"], bool | int | float | date):
        expected += " (as text: in quotes)"
    return f"{where}: found {show(detail['input'])}; {expected}"


def _dotted(location: tuple[int | str, ...]) -> str:
    if location[-1] == "[key]":
        location = (*location[:-2], str(location[-2]))
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.removeprefix(".")


def _lookup(model: type[Model], location: tuple[int | str, ...]) -> tuple[list[str], str | None]:
    """Return the keys of the innermost model on the way to a location, and the description of the
    innermost described field."""
    owner, expected = list(model.model_fields), None
    annotation: Any = model
    for part in location:
        if _BRANCH.fullmatch(str(part)):
            annotation = _branch(annotation, str(part))
            continue
        annotation = _plain(annotation)
        if isinstance(annotation, type) and issubclass(annotation, Model):
            owner = list(annotation.model_fields)
            field = annotation.model_fields.get(str(part))
            annotation = field.annotation if field else None
            expected = field.description if field and field.description else None
        elif part != "[key]" and get_args(annotation):
            annotation = get_args(annotation)[-1]
        if part == "[key]":
            expected = NAME_RULE
    return owner, expected


def _branch(annotation: Any, tag: str) -> Any:
    """Return the branch of a union that has a tag; the union itself if none has it."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    branches = (each for each in get_args(annotation) if Tag(tag) in get_args(each))
    return next(branches, annotation)


def _plain(annotation: Any) -> Any:
    """Strip ``Annotated`` and ``| None`` from an annotation."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        kinds = [_plain(arg) for arg in get_args(annotation) if arg is not type(None)]
        # Only a model has keys to walk to.
        models = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Model)]
        return next(iter(models or kinds))
    return annotation
