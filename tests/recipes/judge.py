"""Lets the vLLM that a recipe names judge it: every line that a unit would run."""

from __future__ import annotations

import difflib
import functools
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkwright.common.schema import nearest, shown
from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.plan.memory.known_checkpoints import checkpoint_data
from sparkwright.plan.release.command import environment, serve_arguments
from tests.lab import engine_image, tiny_model, tiny_texts, tiny_tokenizer
from tests.makers.release import numbered
from tests.recipes import releases
from tests.recipes.environment import INSIDE, run_script

_FABRIC = "192.0.2.1"  # stands for the head's fabric address
_LAB = "lab"  # no GPU is presented: the engine is the image's own, for CPUs

Problem = Mapping[str, Any]  # see inside/judge.py
# Those that the lab makes.
TINY = {
    "sparkwright/tiny-qwen3.5-moe": tiny_model.ensure_models,
    "sparkwright/tiny-qwen3-texts": tiny_texts.ensure_models,
}


@dataclass(frozen=True, eq=False)
class Case:
    """A recipe of a file as one class of hardware serves it with one number of Sparks."""

    file: Path
    recipe: Recipe
    sparks: int
    hardware: str

    @property
    def unknown_models(self) -> list[str]:
        """Repositories of which no config.json is at hand: the configuration is not judged."""
        repos = [checkpoint.repo for checkpoint in self.recipe.whole_models.values()]
        return [repo for repo in repos if files_of(repo) is None]


def cases(file: Path, recipe: Recipe) -> list[Case]:
    """Return a recipe's cases: every number of Sparks on every class of hardware."""
    return [Case(file, recipe, n, hardware) for n in recipe.sparks for hardware in recipe.hardware]


def judge(wanted: Iterable[Case]) -> dict[Case, list[str]]:
    """Return what is wrong with each case, as ``FILE: KEY: found X; expected Y``; good: nothing.

    One process judges all lines of one release and class of hardware; as many run at a time as
    there are cores.

    Raises:
        LabError: a release cannot be had, or its process failed.
    """
    problems: dict[Case, list[str]] = {}
    groups: dict[tuple[str, str], list[Case]] = {}
    for case in wanted:
        problems[case] = [f"{case.file}: {problem}" for problem in _no_judge(case)]
        if not problems[case]:
            groups.setdefault((case.recipe.judge, case.hardware), []).append(case)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for group, answers in zip(groups.values(), pool.map(_ask, groups.values()), strict=True):
            for case, found in zip(group, answers, strict=True):
                told = [
                    f"{case.file}: {sentence(case.recipe, case.sparks, case.recipe.judge, problem)}"
                    for problem in found
                ]
                problems[case] = list(dict.fromkeys(told))
    return problems


def _no_judge(case: Case) -> list[str]:
    """Say what keeps the release that a recipe names from judging it."""
    key = "judged_by" if case.recipe.judged_by else "vllm"
    known = [engine_image.VLLM] if case.hardware == _LAB else releases.known()
    if case.recipe.judge in known:
        return []
    return [
        f"{key}: found {case.recipe.judge}; expected one of {', '.join(known)} as the judge "
        f"(`python -m tests.recipes.releases {case.recipe.judge}` adds it)"
    ]


def _ask(group: list[Case]) -> list[list[Problem]]:
    """Return the problems of each case of one release and class, those of its ranks together."""
    release, hardware = group[0].recipe.judge, group[0].hardware
    lines = [(case, rank) for case in group for rank in range(case.sparks)]
    request = {
        "hardware": None if hardware == _LAB else hardware,
        "lines": [_line(case, rank) for case, rank in lines],
    }
    version = None if hardware == _LAB else release
    answers = json.loads(run_script(version, INSIDE / "judge.py", text=json.dumps(request)))
    found: dict[Case, list[Problem]] = {case: [] for case in group}
    for (case, _), problems in zip(lines, answers, strict=True):
        found[case] += problems
    return list(found.values())


def _judged(recipe: Recipe) -> Recipe:
    """Return a recipe without what only the vLLM of its image has."""
    left = {
        kind: {name: value for name, value in values.items() if name not in recipe.unjudged}
        for kind, values in (("args", recipe.args), ("env", recipe.env))
    }
    return recipe.model_copy(update=left)


def _line(case: Case, rank: int) -> dict[str, Any]:
    recipe = _judged(case.recipe.for_sparks(case.sparks))
    fabric = {"VLLM_HOST_IP": _FABRIC} if case.sparks > 1 else {}
    checkpoints = recipe.whole_models.values()
    return {
        "words": serve_arguments(recipe, numbered(case.sparks, rank, _FABRIC)),
        "variables": environment(recipe, case.sparks) | fabric,
        "models": None
        if case.unknown_models
        else {checkpoint.folder: files_of(checkpoint.repo) for checkpoint in checkpoints},
    }


@functools.cache
def files_of(repo: str) -> dict[str, str] | None:
    """Return the files of a checkpoint by name; None if files/models has no data of it.

    There are no weights, and the tokenizer is the tiny model's: it has the tokens that parsers look
    up.
    """
    if repo in TINY:
        folder = TINY[repo]() / "model"
        small = [path for path in folder.iterdir() if "safetensors" not in path.name]
        return {path.name: path.read_text() for path in small}
    known = checkpoint_data(repo)
    if known is None:
        return None
    files = {
        "config.json": known.config,
        "tokenizer.json": tiny_tokenizer.tokenizer(),
        "tokenizer_config.json": tiny_tokenizer.config(tiny_model.CONTEXT),
    }
    return {name: json.dumps(content) for name, content in files.items()}


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
