"""Recipes of sparkrun (version 2) and of spark-vllm-docker (version 1), read as our own.

Keys: spark-arena/sparkrun, src/sparkrun/core/recipe.py at 00b8e7a; eugr/spark-vllm-docker,
run-recipe.py at 181ade0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sparkwright.common.errors import PlanError
from sparkwright.common.schema import shown
from sparkwright.recipe.engine_log import LEVEL
from sparkwright.recipe.rules import STALE
from sparkwright.recipe.serve_line import ServeLine, fill, parse_line
from sparkwright.recipe.values import OWN_ENVIRONMENT, REPOSITORY
from sparkwright.recipe.vllm_names import is_secret

# Seconds; these recipes have no such key. The slowest start that we know of took 14 minutes: 122
# billion parameters on one Spark (docai.hu/en/blog/qwen35-122b-spark); twice that, rounded up.
START_TIMEOUT = 1800

_READ = (
    *("recipe_version", "name", "description", "model", "model_revision", "runtime", "container"),
    *("command", "defaults", "env", "min_nodes", "max_nodes", "mode", "solo_only", "cluster_only"),
)
# Keys without an effect on what runs.
_HARMLESS = ("sparkrun_version", "runtime_version", "metadata", "benchmark", "capabilities")
_IN_THE_IMAGE = "it left out, in a copy of the file, with an image that has what it does"
_REFUSED = {
    "mods": _IN_THE_IMAGE,
    "builder": _IN_THE_IMAGE,
    "builder_config": _IN_THE_IMAGE,
    "build_args": _IN_THE_IMAGE,
    "pre_exec": _IN_THE_IMAGE,
    "post_exec": "it left out: nothing runs beside the engine",
    "post_commands": "it left out: nothing runs beside the engine",
}
_RUNTIMES = ("vllm", "vllm-distributed", "vllm-ray")

# Options that Sparkwright sets by inventory and replica.
_OURS = (
    *("host", "port", "nnodes", "node-rank", "master-addr", "master-port", "headless"),
    "distributed-executor-backend",
)
_FILES = ("chat-template", "tool-parser-plugin", "reasoning-parser-plugin")
_PARALLEL = ("pipeline-parallel-size", "data-parallel-size")
# Options that name a repository on the hub, which an engine never contacts -> our checkpoint.
_REPOSITORIES = {"tokenizer": "tokenizer", "spec-model": "drafter", "hf-config-path": "config"}


def is_foreign(data: Mapping[str, Any]) -> bool:
    """Tell whether the content of a YAML file is such a recipe."""
    own = "checkpoints" in data or "extends" in data
    return not own and any(key in data for key in ("recipe_version", "container", "command"))


def translate(path: Path, data: Mapping[str, Any]) -> dict[str, Any]:
    """Translate such a recipe into one of ours.

    Args:
        path: Its file.
        data: What the file holds.

    Returns:
        The content of our recipe file, and ``name``.

    Raises:
        PlanError: All that cannot be translated.
    """
    if problems := list(_shape_problems(data)):
        raise PlanError(*(f"{path}: {problem}" for problem in problems))
    problems += _key_problems(data)
    try:
        line = _line(data)
        problems += _command_problems(data, line)
        sparks = _sparks(data, line.options.get("tensor-parallel-size", 1))
    except PlanError as error:
        problems += error.problems
    if problems:
        raise PlanError(*(f"{path}: {problem}" for problem in problems))
    checkpoints = {"model": _checkpoint(line.model)}
    if revision := line.options.get("revision", data.get("model_revision")):
        checkpoints["model"]["revision"] = revision
    args = _arguments(line.options, checkpoints)
    metadata = data.get("metadata") or {}
    description = data.get("description") or metadata.get("description") or data.get("name")
    served = args.pop("served-model-name", line.model)
    return {
        "name": re.sub(r"[^a-z0-9.-]+", "-", path.stem.lower()).strip(".-")[:63],
        "description": " ".join(str(description or line.model).split()),
        "source": f"{path.name}, a recipe of sparkrun or spark-vllm-docker.",
        "proven": "By its authors, with a launcher of theirs; here, by nobody that we know of.",
        "vllm": "its image's own",
        "hardware": ["gb10"],
        "sparks": sparks,
        "image": _tagged(data["container"]),
        "checkpoints": checkpoints,
        "served_names": [str(name) for name in (served if isinstance(served, list) else [served])],
        "args": args,
        "env": dict(_environment(data)),
        "start_timeout": START_TIMEOUT,
    }


def _line(data: Mapping[str, Any]) -> ServeLine:
    command = data.get("command")
    if not isinstance(command, str):
        raise PlanError("command: found nothing; expected one vllm serve line")
    values = {"model": data.get("model"), **(data.get("defaults") or {})}
    try:
        return parse_line(fill(command, values))
    except PlanError as error:
        raise PlanError(*(f"command: {problem}" for problem in error.problems)) from None


def _shape_problems(data: Mapping[str, Any]) -> Iterator[str]:
    for key in ("defaults", "env", "metadata"):
        if not isinstance(data.get(key) or {}, dict):
            yield f"{key}: found {shown(data[key])}; expected a mapping"
    for key in ("min_nodes", "max_nodes"):
        if not isinstance(data.get(key) or 1, int):
            yield f"{key}: found {shown(data[key])}; expected a whole number"


def _key_problems(data: Mapping[str, Any]) -> Iterator[str]:
    for key, value in data.items():
        if key in _REFUSED and value:
            yield f"{key}: found {shown(value)}; expected {_REFUSED[key]}"
        elif key not in (*_READ, *_HARMLESS, *_REFUSED) and value:
            yield f"{key}: found {shown(value)}, which cannot be converted; remove it"
    if str(data.get("recipe_version", "2")) not in ("1", "2"):
        yield f"recipe_version: found {shown(data['recipe_version'])}; expected 1 or 2"
    runtime = data.get("runtime") or "vllm"
    if runtime not in _RUNTIMES:
        yield f"runtime: found {shown(runtime)}; expected {' or '.join(_RUNTIMES)}"
    image = data.get("container")
    if not isinstance(image, str):
        yield f"container: found {shown(image)}; expected an image on a registry"
    elif "/" not in image:
        yield (
            f"container: found {image}, which its author's scripts make; expected an image on a "
            "registry (eugr/spark-vllm is pulled as vllm-node), or a recipe of ours such as "
            "qwen3.5-35b-community, which builds the community's vLLM"
        )
    for key, value in (data.get("env") or {}).items():
        if is_secret(str(key)):
            yield f"env.{key}: found a secret's name; expected no secret in a recipe"
        elif value is None or "$" in str(value) or isinstance(value, list | dict):
            yield f"env.{key}: found {shown(value)}; expected the value itself"


def _command_problems(data: Mapping[str, Any], line: ServeLine) -> Iterator[str]:
    model = data.get("model")
    if not REPOSITORY.fullmatch(line.model):
        yield f"command: found the model {line.model}; expected OWNER/NAME, as on the hub"
    elif model and model != line.model:
        yield f"command: found the model {line.model}; expected {model}, which `model` names"
    for option in _FILES:
        file = str(line.options.get(option, ""))
        if file.endswith((".jinja", ".py")) and "/" not in file:
            yield (
                f"command: found --{option} {file}, a file that a mod brings; expected it left "
                "out, or the file's path in the image"
            )
    for option in _PARALLEL:
        size = line.options.get(option, 1)
        if size != 1:
            yield (
                f"command: found --{option} {shown(size)}; expected 1: Sparks of a replica share "
                "each layer (tensor parallel)"
            )


def _sparks(data: Mapping[str, Any], tensor_parallel: Any) -> list[int]:
    """Return the numbers of Sparks that the recipe is for.

    The launcher of version 1 can run any recipe on one Spark that is not for a cluster only.
    """
    solo = data.get("solo_only") or data.get("mode") == "solo"
    cluster = data.get("cluster_only") or data.get("mode") == "cluster"
    least = max(int(data.get("min_nodes") or 1), 2 if cluster else 1)
    most = 1 if solo else int(data.get("max_nodes") or 2)
    if least > 2:
        key = "min_nodes" if "min_nodes" in data else "cluster_only"
        raise PlanError(f"{key}: found {least}; expected 1 or 2, the number of Sparks of a replica")
    if tensor_parallel not in (1, 2):
        raise PlanError(
            f"command: found --tensor-parallel-size {shown(tensor_parallel)}; expected 1 or 2, the "
            "number of Sparks of a replica"
        )
    is_first_version = str(data.get("recipe_version")) == "1"
    sizes = [1, 2] if is_first_version and tensor_parallel == 2 else [tensor_parallel]
    sparks = [size for size in sizes if least <= size <= most]
    if not sparks:
        nodes = str(least) if least == most else f"{least} to {most}"
        raise PlanError(
            f"command: found --tensor-parallel-size {tensor_parallel}; expected the number of "
            f"Sparks, {nodes} by min_nodes, max_nodes, solo_only and cluster_only"
        )
    return sparks


def _checkpoint(repo: str) -> dict[str, Any]:
    since = next((stale.not_before for stale in STALE if stale.repo == repo), None)
    return {"repo": repo, "folder": repo.replace("/", "--"), "not_before": since}


def _arguments(
    options: Mapping[str, Any], checkpoints: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return the options that stay, with ${NAME} for each repository, which joins checkpoints."""

    def local(name: str, value: Any) -> Any:
        if not isinstance(value, str) or not REPOSITORY.fullmatch(value):
            return value
        known = {checkpoint["repo"]: each for each, checkpoint in checkpoints.items()}
        name = known.get(value, name)
        checkpoints.setdefault(name, _checkpoint(value))
        return f"${{{name}}}"

    left_out = (*_OURS, *_PARALLEL, "tensor-parallel-size", "revision")
    args = {key: value for key, value in options.items() if key not in left_out}
    for key, name in _REPOSITORIES.items():
        if key in args:
            args[key] = local(name, args[key])
    speculative = args.get("speculative-config")
    if isinstance(speculative, dict) and "model" in speculative:
        model = local("drafter", speculative["model"])
        args["speculative-config"] = {**speculative, "model": model}
    return args


def _environment(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the variables as text, without those that Sparkwright or the group data set."""
    for key, value in (data.get("env") or {}).items():
        if key not in (*OWN_ENVIRONMENT, LEVEL):
            yield str(key), str(value)


def _tagged(image: str) -> str:
    """Docker reads a name without a tag as the tag latest."""
    name = image.rpartition("/")[2]
    return image if ":" in name or "@" in name else f"{image}:latest"
