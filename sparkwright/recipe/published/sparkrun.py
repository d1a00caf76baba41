"""Recipes of sparkrun and of spark-vllm-docker (version 1), read as our own.

Keys: spark-arena/sparkrun, src/sparkrun/core/recipe.py at 0041b8f, which has one more version: any
other; eugr/spark-vllm-docker, run-recipe.py at 181ade0, and build-and-copy.sh at 028b7ce.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError
from sparkwright.common.schema import shown
from sparkwright.recipe.mod_script import drops_caches
from sparkwright.recipe.mods import ModFolder, read_mods
from sparkwright.recipe.published.document import Document
from sparkwright.recipe.published.draft import (
    Draft,
    NotForUs,
    Origin,
    Translated,
    recipe_name,
    translated,
)
from sparkwright.recipe.published.mods import find_mod
from sparkwright.recipe.published.serve_line import (
    ServeLine,
    beyond_two,
    fill,
    filled,
    parse_line,
    prints_only,
)
from sparkwright.recipe.published.shell import ShellError

_READ = (
    *("recipe_version", "name", "description", "model", "model_revision", "runtime", "container"),
    *("command", "defaults", "env", "min_nodes", "max_nodes", "mode", "solo_only", "cluster_only"),
    *("mods", "build_args", "pre_exec", "post_exec", "post_commands"),
    *("builder", "builder_config", "executor_config"),
)
# Keys without an effect on what runs: what is said of the recipe, and what its launcher does with
# images and models before it starts one.
_HARMLESS = (
    *("sparkrun_version", "runtime_version", "metadata", "benchmark", "capabilities"),
    *("container_name", "distribution_config", "stop_after_post"),
    *("author", "maintainer", "tags", "notes", "license", "source", "draft_model"),
)
_IN_THE_IMAGE = "it left out, in a copy of the file, with an image that has what it does"
# The one pulls images from registries, the other builds those alone that no registry has.
_BUILDERS = ("eugr", "docker-pull")
_HOOKS = {
    "pre_exec": _IN_THE_IMAGE,
    "post_exec": "it left out: nothing runs beside the engine",
    "post_commands": "it left out: nothing runs beside the engine",
}
_RUNTIMES = ("vllm", "vllm-distributed", "vllm-ray", "eugr-vllm")

# Arguments of spark-vllm-docker's build with which it pulls its image all the same: the first
# choose one, and transformers 5 is in all.
_EXPERIMENTAL = ("--exp-b12x", "--experimental-b12x")
_PULLING = (
    *(*_EXPERIMENTAL, "--tf5", "--pre-tf", "--pre-transformers", "--full-log", "--cleanup"),
    *("--copy-parallel", "--setup", "-t", "--tag", "-j", "--build-jobs", "-u", "--user"),
    *("--network", "--config", "-c", "--copy-to", "--copy-to-host"),
)
_B12X = "eugr/spark-vllm-b12x:latest"
_NIGHTLY = "ghcr.io/spark-arena/dgx-vllm-eugr-nightly"
# The names that spark-vllm-docker's scripts, and sparkrun, give to the images that they pull.
_PULLED = {
    "vllm-node": "eugr/spark-vllm:latest",
    "vllm-node-tf5": "eugr/spark-vllm:latest",
    "vllm-node-b12x": _B12X,
    "sparkrun-eugr-vllm": f"{_NIGHTLY}:latest",
    "sparkrun-eugr-vllm-tf5": f"{_NIGHTLY}-tf5:latest",
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
    remarks = list(document.remarks)
    if settings := document.mapping("executor_config"):
        sentence = f"left out: {', '.join(settings)}. The container here has settings of its own"
        remarks.append(document.problem(("executor_config",), sentence))
    lines: dict[str, int] = {}
    mods: list[Path] = []
    runs: dict[int, ServeLine] = {}
    try:
        mods = _mods(document, origin, remarks)
    except PlanError as error:
        problems += error.problems
    try:
        runs = _runs(document, lines)
    except PlanError as error:
        problems += error.problems
    line = next(iter(runs.values()), None)
    model = document.get("model")
    if line and model and model != line.model:
        found = f"found the model {line.model}; expected {model}, which `model` names"
        problems.append(f"{origin.file}:{lines['checkpoints']}: command: {found}")
    if line is None or problems:
        raise PlanError(*problems)
    envs = {count: _environment(document, each, count) for count, each in runs.items()}
    lines |= {f"env.{key}": document.line(("env", key)) for key in document.mapping("env")}
    first, *others = runs
    draft = Draft(
        origin=origin,
        name=recipe_name(document.path.stem),
        description=_description(document, line.model),
        proven="By its authors, with a launcher of theirs; here, by nobody that we know of.",
        image=str(_image(document)),
        model=line.model,
        revision=line.options.get("revision", document.get("model_revision")),
        options=line.options,
        env=envs[first],
        by_sparks={count: (runs[count].options, envs[count]) for count in others},
        lines=lines,
        key="command",
        sparks=sorted(runs),
        mods=mods,
        remarks=remarks,
    )
    return translated(draft)


def _values(document: Document, sparks: int | None = None) -> dict[str, Any]:
    """Return the values of the command's keys, for a number of Sparks or by the defaults."""
    values = {**_PORT, "model": document.get("model"), **document.mapping("defaults")}
    return values if sparks is None else {**values, "tensor_parallel": sparks}


def _line(document: Document, values: Mapping[str, Any]) -> ServeLine:
    command = document.get("command")
    if not isinstance(command, str):
        raise document.error(("command",), "found nothing; expected one vllm serve line")
    try:
        return parse_line(fill(command, values))
    except ShellError as error:
        raise document.shell_error(("command",), error) from None


def _environment(document: Document, line: ServeLine, sparks: int) -> dict[str, str]:
    values = _values(document, sparks)
    env = {key: filled(str(value), values) for key, value in document.mapping("env").items()}
    return {**env, **line.variables}


def _description(document: Document, model: str) -> str:
    metadata = document.mapping("metadata")
    for each in (document.get("description"), metadata.get("description"), document.get("name")):
        if each:
            return str(each)
    return model


def _shape(document: Document) -> None:
    for key in ("defaults", "env", "metadata", "executor_config"):
        document.mapping(key)
    for key in ("mods", "build_args", *_HOOKS):
        document.texts(key)
    for key in ("min_nodes", "max_nodes"):
        if not isinstance(document.get(key) or 1, int):
            sentence = f"found {shown(document.get(key))}; expected a whole number"
            raise document.error((key,), sentence)


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
    command = document.get("command")
    if not document.get("runtime") and "vllm" not in f"{command} {document.get('container')}":
        sentence = "found a command and an image without vllm; expected vllm serve"
        raise NotForUs("another engine", document.problem(("command",), sentence))
    least = document.get("min_nodes") or 1
    if least > 2:
        sentence = f"found {least}; expected 1 or 2, the number of Sparks of a replica"
        raise NotForUs("more than two Sparks", document.problem(("min_nodes",), sentence))
    if isinstance(command, str) and (found := beyond_two(filled(command, _values(document)))):
        error = document.shell_error(("command",), ShellError(found))
        raise NotForUs("more than two Sparks", *error.problems)


def _image(document: Document) -> str | None:
    """Return the image that the launcher pulls; None: its author's scripts build it."""
    container = document.get("container")
    if not isinstance(container, str) or "/" in container:
        return container
    if any(word in _EXPERIMENTAL for word in document.texts("build_args")):
        return _B12X
    return _PULLED.get(container.removesuffix(":latest"))


def _key_problems(document: Document) -> Iterator[str]:
    read = (*_READ, *_HARMLESS)
    for key, value in document.data.items():
        if key not in read and value:
            found = f"found {shown(value)}, which cannot be converted; remove it"
            yield document.problem((key,), found)
    builder = document.get("builder")
    if builder and builder not in _BUILDERS:
        sentence = f"found {shown(builder)}; expected {' or '.join(_BUILDERS)}"
        yield document.problem(("builder",), sentence)
    if settings := document.get("builder_config"):
        found = f"found {shown(settings)}; expected {_IN_THE_IMAGE}"
        yield document.problem(("builder_config",), found)
    for key, expected in _HOOKS.items():
        for index, hook in enumerate(document.get(key) or []):
            if not isinstance(hook, str) or not prints_only(hook):
                yield document.problem((key, index), f"found {shown(hook)}; expected {expected}")
    for index, word in enumerate(document.texts("build_args")):
        if word.startswith("-") and word not in _PULLING:
            sentence = f"found {shown(word)}; expected {_IN_THE_IMAGE}"
            yield document.problem(("build_args", index), sentence)
    image = document.get("container")
    if not isinstance(image, str):
        sentence = f"found {shown(image)}; expected an image on a registry"
        yield document.problem(("container",), sentence)
    elif _image(document) is None:
        yield document.problem(
            ("container",),
            f"found {image}, which its author's scripts build; expected an image on a registry, or "
            f"one of {', '.join(_PULLED)}, which they pull",
        )
    for key, value in document.mapping("env").items():
        if value is None or isinstance(value, list | dict):
            found = "nothing" if value is None else shown(value)
            yield document.problem(("env", key), f"found {found}; expected the value itself")


def _mods(document: Document, origin: Origin, remarks: list[str]) -> list[Path]:
    """Return the folders of the mods; what is said of one that is left out joins the remarks.

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
        elif any(map(drops_caches, _read(folder))):
            sentence = f"left out: {reference} empties the page cache, as each start here does"
            remarks.append(document.problem(("mods", index), sentence))
        else:
            found.append(folder)
    if problems:
        raise PlanError(*problems)
    return found


def _read(folder: Path) -> list[ModFolder]:
    """Read a mod; nothing where it cannot be read, as the check of the recipe says then."""
    try:
        return read_mods([folder])
    except PlanError:
        return []


def _runs(document: Document, lines: dict[str, int]) -> dict[int, ServeLine]:
    """Return the command by the number of Sparks, that of the defaults first.

    The launcher of version 1 runs any recipe on one Spark that is not for a cluster only: it
    fills in a tensor-parallel size of 1 then. `lines` gets the lines of what the command sets.
    """
    solo = document.get("solo_only") or document.get("mode") == "solo"
    cluster = document.get("cluster_only") or document.get("mode") == "cluster"
    least = max(int(document.get("min_nodes") or 1), 2 if cluster else 1)
    most = 1 if solo else int(document.get("max_nodes") or 2)
    line = _line(document, _values(document))
    for key, word, number in line.places():
        lines[key] = document.line(("command",), number, word)
    lines["image"] = document.line(("container",))
    lines["image.mods"] = document.line(("mods",))
    lines["sparks"] = lines.get("args.tensor-parallel-size", lines["checkpoints"])
    at = f"{document.path}:{lines['sparks']}: command: found --tensor-parallel-size"
    size = _size(line)
    if size not in (1, 2):
        raise PlanError(f"{at} {shown(size)}; expected 1 or 2, the number of Sparks of a replica")
    runs = {size: line}
    if size == 2 and str(document.get("recipe_version")) == "1":
        alone = _line(document, _values(document, 1))
        runs |= {1: alone} if _size(alone) == 1 else {}
    runs = {count: each for count, each in runs.items() if least <= count <= most}
    if not runs:
        nodes = str(least) if least == most else f"{least} to {most}"
        raise PlanError(
            f"{at} {size}; expected the number of "
            f"Sparks, {nodes} by min_nodes, max_nodes, solo_only and cluster_only"
        )
    return runs


def _size(line: ServeLine) -> Any:
    return line.options.get("tensor-parallel-size", 1)
