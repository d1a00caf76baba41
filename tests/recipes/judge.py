"""Lets the vLLM that a recipe names judge it: every line that a unit would run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkwright.declared.recipe.recipe import Recipe
from sparkwright.plan.release.command import environment, serve_arguments
from tests.lab import engine_image
from tests.makers.release import numbered
from tests.recipes import models, releases
from tests.recipes.environment import INSIDE, run_script
from tests.recipes.sentences import Problem, sentence

_FABRIC = "192.0.2.1"  # stands for the head's fabric address
_LAB = "lab"  # no GPU is presented: the engine is the image's own, for CPUs


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
        return [repo for repo in repos if models.files_of(repo) is None]


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
        else {checkpoint.folder: models.files_of(checkpoint.repo) for checkpoint in checkpoints},
    }
