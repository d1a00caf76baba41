"""What vLLM has against a line, said of the recipe's file, key and value."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sparkwright.common.schema import nearest, shown
from sparkwright.declared.recipe.recipe import Recipe

Problem = Mapping[str, Any]  # see inside/judge.py


def sentence(recipe: Recipe, sparks: int, release: str, problem: Problem) -> str:
    """Say what a release has against a line for some Sparks, as ``KEY: found X; expected Y``."""
    settings = {"args": recipe.for_sparks(sparks).args, "env": recipe.for_sparks(sparks).env}
    path = _path(settings, problem)
    words = " ".join(problem.get("words", "").split())
    words = words if len(words) <= 400 else f"{words[:397]}..."
    if path is None:
        line = f"a line for {sparks} Spark(s) that vLLM {release} refuses"
        return f"found {line}; expected one that it takes: {words}"
    own = recipe.by_sparks.get(str(sparks))
    owner = f"by_sparks.{sparks}." if own and path[1] in getattr(own, path[0]) else ""
    where = f"{owner}{'.'.join(path)}"
    value: Any = settings
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    found = f"{where}: found {shown(value)}"
    if known := problem.get("known"):
        return f"{found}{_no_such(path, release, known)}"
    if names := problem.get("names"):
        return f"{found}; {nearest(str(value), names)} (vLLM {release})"
    return f"{found}; expected what vLLM {release} takes: {words}"


def _no_such(path: list[str], release: str, known: Iterable[str]) -> str:
    kind, name = path
    names = [option.lstrip("-") for option in known]
    if kind == "args" and (longer := [option for option in names if option.startswith(name)]):
        return f" for a part of an option's name; expected it whole: {' or '.join(longer)}"
    what = "an option" if kind == "args" else "a variable"
    close = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    return f" for {what} that vLLM {release} does not know; expected one that it knows{hint}"


def _path(settings: Mapping[str, Mapping[str, Any]], problem: Problem) -> list[str] | None:
    """Find the keys that lead to what a problem is about; None: it names none of the recipe's."""
    args = settings["args"]
    if "variable" in problem:
        return ["env", problem["variable"]]
    if option := problem.get("option", "").lstrip("-"):
        return ["args", option if option in args else option.removeprefix("no-")]
    title, *fields = problem.get("field", [""])
    option = _kebab(title)  # SpeculativeConfig is what --speculative-config is made into
    for name in fields:
        if isinstance(args.get(option), dict) and name in args[option]:
            return ["args", option, name]
        if _kebab(name) in args:
            return ["args", _kebab(name)]
    if option in args:
        return ["args", option]
    return _mentioned(settings, problem.get("words", ""))


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).replace("_", "-").lower()


def _mentioned(settings: Mapping[str, Mapping[str, Any]], words: str) -> list[str] | None:
    """Return the key of the recipe that a text mentions first, however it writes it."""
    places = []
    for path in _keys(settings):
        pattern = re.sub("[-_]", "[-_ ]", re.escape(path[-1]).replace(r"\-", "-"))
        if match := re.search(rf"(?<![\w-]){pattern}(?![\w-])", words, re.IGNORECASE):
            places.append((match.start(), -len(path[-1]), path))
    return min(places)[2] if places else None


def _keys(settings: Mapping[str, Mapping[str, Any]]) -> Iterator[list[str]]:
    for kind, values in settings.items():
        for key, value in values.items():
            yield [kind, key]
            if isinstance(value, dict):
                yield from ([kind, key, inner] for inner in value)
