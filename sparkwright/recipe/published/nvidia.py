"""Recipes of NVIDIA's local-ai-inference-recipes (schema versions 3 and 4), read as our own.

Keys: NVIDIA/local-ai-inference-recipes, models/…/recipe.yaml at dedcf6b.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sparkwright.common.errors import PlanError
from sparkwright.common.schema import shown
from sparkwright.recipe.published.docker_line import DockerRun, docker_run
from sparkwright.recipe.published.document import Document, Keys
from sparkwright.recipe.published.draft import (
    Draft,
    NotForUs,
    Origin,
    Translated,
    recipe_name,
    translated,
)
from sparkwright.recipe.published.serve_line import OURS, ServeLine, parse_line
from sparkwright.recipe.published.shell import ShellError

_COMMAND: Keys = ("serve", "command")
_SETUP: Keys = ("runtime", "setup_command")
# Their hardware -> Sparks.
_SPARKS = {"dgx-spark": 1, "dgx-spark-2gpu": 2}
_HUB = "https://huggingface.co/"


def is_nvidia(data: Mapping[str, Any]) -> bool:
    """Tell whether the content of a YAML file is such a recipe."""
    return {"schema_version", "backend", "hardware"} <= data.keys()


def translate(document: Document, origin: Origin) -> Translated:
    """Translate such a recipe into one of ours.

    Raises:
        NotForUs: It is for another engine or other hardware.
        PlanError: All that cannot be translated.
    """
    _audience(document)
    lines: dict[str, int] = {}
    problems: list[str] = []
    line, setup = None, None
    try:
        line = _line(document, _COMMAND)
        lines |= {key: document.line(_COMMAND, at, word) for key, word, at in line.places()}
        problems += [*_worker_problems(document, line), *_model_problems(document, line)]
        setup = _setup(document)
    except PlanError as error:
        problems += error.problems
    sparks = _SPARKS[document.get("hardware")]
    lines["sparks"] = document.line(("hardware",))
    lines["image"] = document.line(("runtime", "image"))
    image = document.get("runtime", "image")
    if not isinstance(image, str):
        sentence = f"found {shown(image)}; expected an image"
        problems.append(document.problem(("runtime", "image"), sentence))
    if line is None or problems:
        raise PlanError(*problems)
    size = line.options.get("tensor-parallel-size", 1)
    if size != sparks:
        sentence = f"found --tensor-parallel-size {shown(size)}; expected {sparks}, as `hardware`"
        at = line.lines.get("tensor-parallel-size", line.lines["model"])
        raise PlanError(document.problem(_COMMAND, sentence, at))
    variables = dict(setup.variables) if setup else {}
    for name, at in setup.lines.items() if setup else ():
        lines.setdefault(f"env.{name}", document.line(_SETUP, at, name))
    least = document.get("min_vidmem_gb") or 128
    draft = Draft(
        origin=origin,
        name=recipe_name(*name_words(document.path)),
        description=str(document.get("title") or line.model),
        proven=_proven(document),
        image=image,
        said=document.get("backend_version"),
        model=line.model,
        revision=line.options.get("revision"),
        options=line.options,
        env={**variables, **line.variables},
        lines=lines,
        key=".".join(map(str, _COMMAND)),
        sparks=[sparks],
        hardware=["gb10", "gb10-64gb"] if isinstance(least, int) and least <= 64 else ["gb10"],
        remarks=document.remarks,
    )
    return translated(draft)


def name_words(path: Path) -> list[str]:
    """Return the words of the path that tell recipes apart: model, hardware, precision."""
    parts = list(path.parts[:-1])
    if "models" in parts:
        parts = parts[len(parts) - parts[::-1].index("models") :][1:]
    return [part for part in parts if part not in ("linux", "vllm")] or [path.stem]


def _audience(document: Document) -> None:
    engine = document.get("backend")
    if engine != "vllm":
        sentence = f"found {shown(engine)}; expected vllm"
        raise NotForUs("another engine", document.problem(("backend",), sentence))
    hardware = str(document.get("hardware"))
    if hardware in _SPARKS:
        return
    sentence = f"found {shown(hardware)}; expected {' or '.join(_SPARKS)}"
    is_spark = hardware.startswith("dgx-spark-")
    raise NotForUs(
        "more than two Sparks" if is_spark else "no GB10",
        document.problem(("hardware",), sentence),
    )


def _line(document: Document, keys: Keys) -> ServeLine:
    command = document.get(*keys)
    if not isinstance(command, str):
        raise document.error(keys, "found nothing; expected one vllm serve line")
    try:
        return parse_line(command)
    except ShellError as error:
        raise document.shell_error(keys, error) from None


def _setup(document: Document) -> DockerRun | None:
    """Read the line that starts the container, for the variables that it sets."""
    text = document.get(*_SETUP)
    if not isinstance(text, str):
        return None
    try:
        return docker_run(text)
    except ShellError as error:
        raise document.shell_error(_SETUP, error) from None


def _worker_problems(document: Document, head: ServeLine) -> Iterator[str]:
    """Yield how a worker's line differs: all ranks of a replica run the same."""
    others = document.get("serve", "additional_commands")
    for index, other in enumerate(others if isinstance(others, list) else []):
        keys: Keys = ("serve", "additional_commands", index, "command")
        if not isinstance(other, dict) or other.get("id") not in ("worker", "workers"):
            yield document.problem(keys, "found another program; expected the workers' line alone")
            continue
        line = _line(document, keys)
        theirs, ours = _own(line), _own(head)
        for name in dict.fromkeys([*theirs, *ours]):
            if theirs.get(name) != ours.get(name):
                at = line.lines.get(name, line.lines["model"])
                found = shown(theirs.get(name))
                sentence = f"found {name}: {found}; expected {shown(ours.get(name))}, as the head's"
                yield document.problem(keys, sentence, at)


def _own(line: ServeLine) -> dict[str, Any]:
    options = {key: value for key, value in line.options.items() if key not in OURS}
    return {"model": line.model, **options, **line.variables}


def _model_problems(document: Document, line: ServeLine) -> Iterator[str]:
    target = document.get("checkpoint", "target")
    if isinstance(target, str) and target.removeprefix(_HUB).rstrip("/") != line.model:
        sentence = f"found the model {line.model}; expected {target}, which checkpoint.target names"
        yield document.problem(_COMMAND, sentence, line.lines["model"])


def _speed(recipe: Path) -> str:
    """Return what NVIDIA measured with a recipe, for one request at a time; "" for nothing."""
    path = recipe.with_name("performance.yaml")
    if not path.is_file() or path.is_symlink():
        return ""
    try:
        figures = Document(path)
    except PlanError:
        return ""
    profiles = figures.get("profiles")
    for index in range(len(profiles) if isinstance(profiles, list) else 0):
        if figures.get("profiles", index, "workload", "concurrency") != 1:
            continue
        speed = figures.get("profiles", index, "results", "decode_tokens_per_second_mean")
        tokens = figures.get("profiles", index, "workload", "input_tokens")
        if isinstance(speed, int | float) and isinstance(tokens, int):
            return f", {speed:.0f} tokens/s after a prompt of {tokens:,} tokens"
    return ""


def _proven(document: Document) -> str:
    status = document.get("status")
    stack = document.get("validation", "tested_stack")
    driver = stack.get("driver") if isinstance(stack, dict) else None
    tested = f", tested with driver {driver}" if driver else ""
    limits = "; ".join(document.texts("limitations"))
    speed = _speed(document.path)
    said = f"By NVIDIA (status: {status}{tested}{speed}); here, by nobody that we know of."
    return f"{said} Its limits, by NVIDIA: {limits}" if limits else said
