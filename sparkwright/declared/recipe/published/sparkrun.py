"""Recipes of sparkrun and of spark-vllm-docker (version 1), read as our own.

Keys: spark-arena/sparkrun, src/sparkrun/core/recipe.py at 0041b8f, which has one more version: any
other; eugr/spark-vllm-docker, run-recipe.py at 181ade0, and build-and-copy.sh at 028b7ce.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sparkwright.common import yaml
from sparkwright.common.errors import PlanError, refuse
from sparkwright.common.schema import shown
from sparkwright.declared.recipe.mods import ENTRY, MOST_MODS, ModFolder, read_mods
from sparkwright.declared.recipe.published import serve_line
from sparkwright.declared.recipe.published.document import OTHER_COUNT, Document, NotForUs
from sparkwright.declared.recipe.published.serve_line import ServeLine, ShellError
from sparkwright.declared.recipe.published.translated import PARALLEL, Translated
from sparkwright.declared.recipe.values import COUNTS

_TABLES = yaml.load(Path(__file__).with_name("sparkrun.yaml"))
_KNOWN, _RUNTIMES, _BUILDERS, _EXPERIMENTAL, _PULLING = (
    tuple(_TABLES[name].split())
    for name in ("keys", "runtimes", "builders", "experimental", "pulling")
)
_PULLED: Mapping[str, str] = _TABLES["pulled"]
_IN_THE_IMAGE = "it left out, in a copy of the file, with an image that has what it does"
_BESIDE = "it left out: nothing runs beside the engine"
_HOOKS = {"pre_exec": _IN_THE_IMAGE, "post_exec": _BESIDE, "post_commands": _BESIDE}
_SIZE = "tensor-parallel-size"
_MOD = re.compile(r"(@[A-Za-z0-9_-]+/)?(mods/)?(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)/?")


def is_sparkrun(data: Mapping[str, Any]) -> bool:
    """Tell whether the content of a YAML file is such a recipe."""
    return not {"checkpoints", "extends"} & {*data} and bool(
        {"recipe_version", "container", "command"} & {*data}
    )


def translate(document: Document) -> Translated:
    """Translate such a recipe into one of ours."""
    for key in ("defaults", "env", "metadata", "executor_config"):
        document.mapping(key)
    _audience(document)
    problems = [*_key_problems(document)]
    if settings := document.mapping("executor_config"):
        sentence = f"left out: {', '.join(settings)}. The container here has settings of its own"
        document.remarks.append(document.problem(("executor_config",), sentence))
    mods = [*_mods(document, problems)]
    lines: dict[int, ServeLine] = {}
    runs: dict[int, tuple[Mapping[str, Any], Mapping[str, str]]] = {}
    try:
        lines = _lines(document)
        runs = {
            count: (line.options, _environment(document, line, count))
            for count, line in lines.items()
        }
    except PlanError as error:
        problems += error.problems
    line = next(iter(lines.values()), ServeLine("", {}))
    places = {key: document.line("command", within=at) for key, at in line.lines.items()}
    model = document.get("model")
    if lines and model and model != line.model:
        found = f"found the model {line.model}; expected {model}, which `model` names"
        problems.append(f"{document.path}:{places['checkpoints']}: command: {found}")
    refuse(problems)
    places |= {f"env.{key}": document.line("env", key) for key in document.mapping("env")}
    places |= {"image": document.line("container"), "image.mods": document.line("mods")}
    places["sparks"] = places.get(f"args.{_SIZE}", places["checkpoints"])
    described = document.get("metadata", "description") or document.get("name") or line.model
    return Translated(
        document,
        name=document.path.stem,
        description=str(document.get("description") or described),
        proven="By its authors, with a launcher of theirs.",
        image=str(_image(document)),
        model=line.model,
        runs=runs,
        lines=places,
        revision=line.options.get("revision", document.get("model_revision")),
        mods=mods,
    )


def _values(document: Document, sparks: int | None = None) -> dict[str, Any]:
    """Return the values of the command's keys, for a number of Sparks or by the defaults."""
    values = {"port": 8000, "host": "0.0.0.0", "model": document.get("model")}
    values |= document.mapping("defaults")
    return values if sparks is None else {**values, "tensor_parallel": sparks}


def _line(document: Document, sparks: int | None = None) -> ServeLine:
    command = document.get("command")
    if not isinstance(command, str):
        raise PlanError(
            document.problem(("command",), "found nothing; expected one vllm serve line")
        )
    try:
        return serve_line.parse_line(serve_line.fill(command, _values(document, sparks)))
    except ShellError as error:
        raise document.shell_error("command", error) from None


def _environment(document: Document, line: ServeLine, sparks: int) -> dict[str, str]:
    values, env = _values(document, sparks), document.mapping("env")
    most = serve_line.MOST_VALUE
    try:
        ours = {key: serve_line.filled(str(value), values, most) for key, value in env.items()}
    except ShellError as error:
        raise document.shell_error("env", error) from None
    return {**ours, **line.variables}


def _audience(document: Document) -> None:
    """Refuse what is for others."""
    runtime, command = document.get("runtime"), document.get("command")
    if runtime and runtime not in _RUNTIMES:
        problem = document.wrong("runtime", expected=" or ".join(_RUNTIMES))
        raise NotForUs("another engine", problem)
    if not runtime and "vllm" not in f"{command} {document.get('container')}":
        sentence = "found a command and an image without vllm; expected vllm serve"
        raise NotForUs("another engine", document.problem(("command",), sentence))
    for key in ("min_nodes", "max_nodes"):
        if not isinstance(document.get(key) or 1, int):
            raise PlanError(document.wrong(key, expected="a whole number"))
    if (document.get("min_nodes") or 1) > COUNTS[-1]:
        problem = document.wrong("min_nodes", expected=f"{COUNTS[-1]} Sparks at most")
        raise NotForUs(OTHER_COUNT, problem)
    with suppress(ShellError):
        text = serve_line.filled(command, _values(document)) if isinstance(command, str) else ""
        if found := serve_line.other_count(text):
            problem = document.problem(("command",), found[1], found[0])
            raise NotForUs(OTHER_COUNT, problem)


def _image(document: Document) -> str | None:
    """Return the image that the launcher pulls; None: its author's scripts build it."""
    container = document.get("container")
    if not isinstance(container, str) or "/" in container:
        return container
    if any(word in _EXPERIMENTAL for word in document.texts("build_args")):
        return _PULLED["vllm-node-b12x"]
    return _PULLED.get(container.removesuffix(":latest"))


def _key_problems(document: Document) -> Iterator[str]:
    for key, value in document.data.items():
        if key not in _KNOWN and value:
            found = f"found {shown(value)}, which cannot be converted; remove it"
            yield document.problem((key,), found)
    builder, image = document.get("builder"), document.get("container")
    if builder and builder not in _BUILDERS:
        yield document.wrong("builder", expected=" or ".join(_BUILDERS))
    if document.get("builder_config"):
        yield document.wrong("builder_config", expected=_IN_THE_IMAGE)
    for key, expected in _HOOKS.items():
        for index, _ in enumerate(document.texts(key)):
            yield document.wrong(key, index, expected=expected)
    for index, word in enumerate(document.texts("build_args")):
        if word.startswith("-") and word not in (*_EXPERIMENTAL, *_PULLING):
            yield document.wrong("build_args", index, expected=_IN_THE_IMAGE)
    if not isinstance(image, str) or _image(document) is None:
        sentence = f"found {image or shown(image)}, which its author's scripts build; expected an "
        sentence += f"image on a registry, or one of {', '.join(_PULLED)}, which they pull"
        yield document.problem(("container",), sentence)
    for key, value in document.mapping("env").items():
        if value is None or isinstance(value, list | dict):
            yield document.wrong("env", key, expected="the value itself")


def _mods(document: Document, problems: list[str]) -> Iterator[ModFolder]:
    """Yield the mods; what is said of one that is left out joins the document's remarks."""
    for index, reference in enumerate(document.texts("mods")[: MOST_MODS + 1]):
        match, keys = _MOD.fullmatch(reference), ("mods", index)
        folders = (folder / match["name"] for folder in document.mods) if match else ()
        folder = next((each for each in folders if (each / ENTRY).is_file()), None)
        if folder is None:
            sentence = f"found {reference}, a mod that is not at hand; expected its folder beside "
            sentence += "the recipe, in mods of its source, or in spark-vllm-docker"
            problems.append(document.problem(keys, sentence))
            continue
        try:
            (mod,) = read_mods([folder])
        except PlanError as error:
            problems += (document.problem(keys, problem) for problem in error.problems)
            continue
        if mod.drops_caches:
            sentence = f"left out: {reference} empties the page cache, as each start here does"
            document.remarks.append(document.problem(keys, sentence))
        else:
            yield mod


def _lines(document: Document) -> dict[int, ServeLine]:
    """Return the command by the number of Sparks, that of the defaults first."""
    solo = document.get("solo_only") or document.get("mode") == "solo"
    cluster = document.get("cluster_only") or document.get("mode") == "cluster"
    least = max(int(document.get("min_nodes") or 1), 2 if cluster else 1)
    most = 1 if solo else int(document.get("max_nodes") or COUNTS[-1])
    line = _line(document)
    size = _size(line)
    found = {size: line} if size in COUNTS else {}
    # The launcher of version 1 runs any other on one Spark, too, with 1 filled in as the size.
    if size == 2 and str(document.get("recipe_version")) == "1":
        alone = _line(document, 1)
        found |= {1: alone} if _size(alone) == 1 else {}
    found = {count: each for count, each in found.items() if least <= count <= most}
    if not found:
        at = line.lines.get(f"args.{_SIZE}", line.lines["checkpoints"])
        sentence = f"found --{_SIZE} {shown(line.options.get(_SIZE, 1))}; expected the number of "
        sentence += f"Sparks with stages and copies, {least} to {most} by min_nodes, max_nodes, "
        sentence += "solo_only and cluster_only"
        raise PlanError(document.problem(("command",), sentence, at))
    return found


def _size(line: ServeLine) -> int:
    """Return the number of Sparks that a line is for; 0 where none can be told."""
    sizes = [line.options.get(name, 1) for name in (_SIZE, *PARALLEL)]
    return math.prod(sizes) if all(type(size) is int for size in sizes) else 0
