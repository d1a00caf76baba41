"""Recipes of sparkrun (version 2) and of spark-vllm-docker (version 1), read as our own.

Keys: spark-arena/sparkrun, src/sparkrun/core/recipe.py at 00b8e7a; eugr/spark-vllm-docker,
run-recipe.py at 181ade0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError
from sparkwright.common.schema import shown
from sparkwright.recipe.published.document import Document
from sparkwright.recipe.published.draft import (
    Draft,
    NotForUs,
    Origin,
    Translated,
    recipe_name,
    tagged,
    translated,
)
from sparkwright.recipe.published.mods import find_mod
from sparkwright.recipe.published.serve_line import ServeLine, fill, parse_line, prints_only
from sparkwright.recipe.published.shell import ShellError
from sparkwright.recipe.published.versions import version_of

_READ = (
    *("recipe_version", "name", "description", "model", "model_revision", "runtime", "container"),
    *("command", "defaults", "env", "min_nodes", "max_nodes", "mode", "solo_only", "cluster_only"),
    *("mods", "build_args", "pre_exec", "post_exec", "post_commands"),
)
# Keys without an effect on what runs.
_HARMLESS = (
    *("sparkrun_version", "runtime_version", "metadata", "benchmark", "capabilities"),
    "container_name",
)
_IN_THE_IMAGE = "it left out, in a copy of the file, with an image that has what it does"
_REFUSED = {"builder": _IN_THE_IMAGE, "builder_config": _IN_THE_IMAGE}
_HOOKS = {
    "pre_exec": _IN_THE_IMAGE,
    "post_exec": "it left out: nothing runs beside the engine",
    "post_commands": "it left out: nothing runs beside the engine",
}
_RUNTIMES = ("vllm", "vllm-distributed", "vllm-ray", "eugr-vllm")

# Arguments of spark-vllm-docker's build that change nothing in the image that it pulls now:
# transformers 5 is in all of them (spark-arena/sparkrun, docs/builders: `--tf5` is a no-op).
_NO_OPERATION = ("--tf5", "--pre-tf")
# The names that spark-vllm-docker's scripts give to the images that they pull (build-and-copy.sh).
_PULLED = {
    "vllm-node": "eugr/spark-vllm:latest",
    "vllm-node-tf5": "eugr/spark-vllm:latest",
    "vllm-node-b12x": "eugr/spark-vllm-b12x:latest",
}
# What a launcher puts in where a recipe has no default of its own.
_PORT = {"port": 8000, "host": "0.0.0.0"}


def is_sparkrun(data: Mapping[str, Any]) -> bool:
    """Tell whether the content of a YAML file is such a recipe."""
    own = "checkpoints" in data or "extends" in data
    return not own and any(key in data for key in ("recipe_version", "container", "command"))


def translate(document: Document, origin: Origin) -> Translated:
    """Translate such a recipe into one of ours.

    Raises:
        NotForUs: It is for another engine, or for more than two Sparks.
        PlanError: All that cannot be translated.
    """
    _shape(document)
    _audience(document)
    problems = [*_key_problems(document)]
    lines: dict[str, int] = {}
    mods: list[Path] = []
    line = None
    sparks: list[int] = []
    try:
        mods = _mods(document, origin)
    except PlanError as error:
        problems += error.problems
    try:
        line = _line(document, lines)
        sparks = _sparks(document, line, lines)
    except NotForUs:
        raise
    except PlanError as error:
        problems += error.problems
    model = document.get("model")
    if line and model and model != line.model:
        found = f"found the model {line.model}; expected {model}, which `model` names"
        problems.append(f"{origin.file}:{lines['checkpoints']}: command: {found}")
    if line is None or problems:
        raise PlanError(*problems)
    image = tagged(_PULLED.get(document.get("container"), document.get("container")))
    env = {str(key): str(value) for key, value in document.mapping("env").items()}
    lines |= {f"env.{key}": document.line(("env", key)) for key in env}
    draft = Draft(
        origin=origin,
        name=recipe_name(document.path.stem),
        description=_description(document, line.model),
        proven="By its authors, with a launcher of theirs; here, by nobody that we know of.",
        image=image,
        version=version_of(image, None, origin.day),
        model=line.model,
        revision=line.options.get("revision", document.get("model_revision")),
        options=line.options,
        env={**env, **line.variables},
        lines=lines,
        key="command",
        sparks=sparks,
        mods=mods,
    )
    return translated(draft)


def _line(document: Document, lines: dict[str, int]) -> ServeLine:
    """Read the command; add the lines of what it sets to `lines`, by our keys."""
    command = document.get("command")
    if not isinstance(command, str):
        raise document.error(("command",), "found nothing; expected one vllm serve line")
    given = document.mapping("defaults")
    values = {**_PORT, "model": document.get("model"), **given}
    try:
        line = parse_line(fill(command, values))
    except ShellError as error:
        raise PlanError(
            *(
                document.problem(("command",), sentence, at, _word(sentence))
                for at, sentence in error.found
            )
        ) from None
    for name, at in line.lines.items():
        key = "checkpoints" if name == "model" else f"args.{name}"
        key = f"env.{name}" if name in line.variables else key
        word = "serve" if name == "model" else name
        lines[key] = document.line(("command",), at, word)
    lines["image"] = document.line(("container",))
    lines["image.mods"] = document.line(("mods",))
    lines["served_names"] = lines.get("args.served-model-name", lines["checkpoints"])
    return line


def _word(sentence: str) -> str:
    """Return the word that a sentence says was found, to look for its line by."""
    return sentence.removeprefix("found ").partition(" ")[0].partition(";")[0].partition(",")[0]


def _description(document: Document, model: str) -> str:
    metadata = document.mapping("metadata")
    for each in (document.get("description"), metadata.get("description"), document.get("name")):
        if each:
            return str(each)
    return model


def _shape(document: Document) -> None:
    problems = [
        document.problem((key,), f"found {shown(document.get(key))}; expected a mapping")
        for key in ("defaults", "env", "metadata")
        if not isinstance(document.get(key) or {}, dict)
    ]
    problems += [
        document.problem((key,), f"found {shown(document.get(key))}; expected a list")
        for key in ("mods", "build_args", *_HOOKS)
        if not isinstance(document.get(key) or [], list)
    ]
    problems += [
        document.problem((key,), f"found {shown(document.get(key))}; expected a whole number")
        for key in ("min_nodes", "max_nodes")
        if not isinstance(document.get(key) or 1, int)
    ]
    if problems:
        raise PlanError(*problems)


def _audience(document: Document) -> None:
    """Refuse what is for others.

    Raises:
        NotForUs: Another engine, or more than two Sparks.
    """
    runtime = document.get("runtime") or "vllm"
    if runtime not in _RUNTIMES:
        expected = " or ".join(_RUNTIMES)
        sentence = f"found {shown(runtime)}; expected {expected}"
        raise NotForUs("another engine", document.problem(("runtime",), sentence))
    least = document.get("min_nodes") or 1
    if least > 2:
        sentence = f"found {least}; expected 1 or 2, the number of Sparks of a replica"
        raise NotForUs("more than two Sparks", document.problem(("min_nodes",), sentence))


def _key_problems(document: Document) -> Iterator[str]:
    for key, value in document.data.items():
        if key in _REFUSED and value:
            yield document.problem((key,), f"found {shown(value)}; expected {_REFUSED[key]}")
        elif key not in (*_READ, *_HARMLESS, *_REFUSED) and value:
            found = f"found {shown(value)}, which cannot be converted; remove it"
            yield document.problem((key,), found)
    for key, expected in _HOOKS.items():
        for index, hook in enumerate(document.get(key) or []):
            if not isinstance(hook, str) or not prints_only(hook):
                yield document.problem((key, index), f"found {shown(hook)}; expected {expected}")
    for index, word in enumerate(document.get("build_args") or []):
        if word not in _NO_OPERATION:
            sentence = f"found {shown(word)}; expected {_IN_THE_IMAGE}"
            yield document.problem(("build_args", index), sentence)
    if str(document.data.get("recipe_version", "2")) not in ("1", "2"):
        version = shown(document.get("recipe_version"))
        yield document.problem(("recipe_version",), f"found {version}; expected 1 or 2")
    image = document.get("container")
    if not isinstance(image, str):
        sentence = f"found {shown(image)}; expected an image on a registry"
        yield document.problem(("container",), sentence)
    elif "/" not in image and image not in _PULLED:
        yield document.problem(
            ("container",),
            f"found {image}, which its author's scripts build; expected an image on a registry, or "
            f"one of {', '.join(_PULLED)}, which they pull",
        )
    for key, value in document.mapping("env").items():
        if value is None or isinstance(value, list | dict):
            found = "nothing" if value is None else shown(value)
            yield document.problem(("env", key), f"found {found}; expected the value itself")


def _mods(document: Document, origin: Origin) -> list[Path]:
    """Return the folders of the mods.

    Raises:
        PlanError: One is not at hand.
    """
    found: list[Path] = []
    problems: list[str] = []
    for index, reference in enumerate(document.texts("mods")):
        folder = find_mod(reference, origin.mods)
        if folder is None:
            problems.append(
                document.problem(
                    ("mods", index),
                    f"found {reference}, a mod that is not at hand; expected its folder beside the "
                    f"recipe, in mods of the checkout, or, for `{next_line('recipes import')}`, in "
                    "spark-vllm-docker",
                )
            )
        else:
            found.append(folder)
    if problems:
        raise PlanError(*problems)
    return found


def _sparks(document: Document, line: ServeLine, lines: dict[str, int]) -> list[int]:
    """Return the numbers of Sparks that the recipe is for.

    The launcher of version 1 can run any recipe on one Spark that is not for a cluster only.
    """
    solo = document.get("solo_only") or document.get("mode") == "solo"
    cluster = document.get("cluster_only") or document.get("mode") == "cluster"
    least = max(int(document.get("min_nodes") or 1), 2 if cluster else 1)
    most = 1 if solo else int(document.get("max_nodes") or 2)
    lines["sparks"] = lines.get("args.tensor-parallel-size", lines["checkpoints"])
    tensor_parallel = line.options.get("tensor-parallel-size", 1)
    at = f"{document.path}:{lines['sparks']}: command: found --tensor-parallel-size"
    for option in ("tensor-parallel-size", "pipeline-parallel-size"):
        size = line.options.get(option, 1)
        if isinstance(size, int) and size > 2:
            sentence = f"found --{option} {size}; expected 1 or 2, the number of Sparks"
            problem = document.problem(("command",), sentence, line.lines[option], option)
            raise NotForUs("more than two Sparks", problem)
    if tensor_parallel not in (1, 2):
        found = shown(tensor_parallel)
        raise PlanError(f"{at} {found}; expected 1 or 2, the number of Sparks of a replica")
    is_first_version = str(document.get("recipe_version")) == "1"
    sizes = [1, 2] if is_first_version and tensor_parallel == 2 else [tensor_parallel]
    sparks = [size for size in sizes if least <= size <= most]
    if not sparks:
        nodes = str(least) if least == most else f"{least} to {most}"
        raise PlanError(
            f"{at} {tensor_parallel}; expected the number of "
            f"Sparks, {nodes} by min_nodes, max_nodes, solo_only and cluster_only"
        )
    return sparks
