"""Reads the `docker run … vllm serve` lines of NVIDIA's playbooks: pages in Markdown, and scripts.

What a reader has to put in himself, such as ``$MODEL``, is refused with its line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import content_of
from sparkwright.common.schema import nearest, shown
from sparkwright.common.yaml import MOST_BYTES
from sparkwright.recipe.published.docker_line import DockerRun, docker_run
from sparkwright.recipe.published.draft import (
    Draft,
    NotForUs,
    Origin,
    Translated,
    recipe_name,
    tagged,
    translated,
)
from sparkwright.recipe.published.serve_line import ServeLine, of_words, parse_line
from sparkwright.recipe.published.shell import ShellError, Word, commands
from sparkwright.recipe.published.versions import version_of

_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w-]*)[^\n]*$")
_SHELLS = ("", "bash", "sh", "shell", "console")
_SERVES = re.compile(r"\bvllm serve\b|\bdocker run\b[^`]*\bvllm/vllm-openai", re.DOTALL)
# These images start `vllm serve` themselves.
_ENTRY = "vllm/vllm-openai"
_BASH = ("bash", "sh", "/bin/bash", "/bin/sh")
_MODEL = re.compile(r"\bvllm serve\s+['\"]?([\w.-]+/[\w.-]+)")
# Playbooks for another machine.
_STATION = re.compile(r"(^|-)station(-|$)")
_MOST_LINES = 100
# A folder that holds what is fetched: an engine here has its own.
_CACHE = "/.cache/"


@dataclass(frozen=True)
class Found:
    """A command of a page that serves a model.

    Attributes:
        name: By which it is told from others of the page.
        line: Of the page, from 1.
        text: The command.
    """

    name: str
    line: int
    text: str


def is_playbook(path: Path) -> bool:
    """Tell whether a file may be such a page."""
    return path.suffix.lower() in (".md", ".sh")


def found(path: Path) -> list[Found]:
    """Return the commands of a page or script that serve a model.

    Raises:
        PlanError: It cannot be read.
    """
    try:
        text = content_of(path, MOST_BYTES).decode()
    except (OSError, ValueError) as error:
        raise PlanError(f"{path}: cannot be read as text ({error})") from None
    if len(text) > MOST_BYTES:
        raise PlanError(f"{path}: found more than {MOST_BYTES:,} bytes; expected at most that")
    blocks = _blocks(text) if path.suffix.lower() == ".md" else [(1, text)]
    names: dict[str, int] = {}
    result: list[Found] = []
    for start, block in blocks:
        for line, command in _commands(block):
            name = recipe_name(_model(command).rpartition("/")[2]) or "serve"
            names[name] = names.get(name, 0) + 1
            name = f"{name}-{names[name]}" if names[name] > 1 else name
            result.append(Found(name, start + line, command))
    return result[:_MOST_LINES]


def _model(command: str) -> str:
    """Return the model that a command serves; "" where a reader has to put it in."""
    try:
        run = docker_run(command)
        return (_line(run) if run else _without_image(command)).model
    except ShellError:
        match = _MODEL.search(command)
        return match[1] if match else ""


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield the shell blocks of a page, each with the number of its first line, from 1."""
    fence: re.Match[str] | None = None
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _FENCE.match(line)
        if fence is None and match:
            fence, lines = match, []
        elif (
            fence and match and match["fence"].startswith(fence["fence"]) and not match["language"]
        ):
            if fence["language"].lower() in _SHELLS:
                yield number - len(lines), "\n".join(lines)
            fence = None
        elif fence:
            lines.append(line.removeprefix(fence["indent"]))


def _commands(block: str) -> Iterator[tuple[int, str]]:
    """Yield the commands of a block that serve, each with its line, from 0.

    One ends where a line ends without a backslash, unless a quote is open.
    """
    if not _SERVES.search(block):
        return
    lines = block.splitlines()
    start = 0
    for number in range(len(lines)):
        text = "\n".join(lines[start : number + 1])
        if lines[number].rstrip().endswith("\\") and number + 1 < len(lines):
            continue
        try:
            [*commands(text)]
        except ShellError:
            if number + 1 < len(lines):
                continue
        if _SERVES.search(text):
            yield start, text
        start = number + 1


def translate(path: Path, origin: Origin, name: str) -> Translated:
    """Translate a command of a page into a recipe of ours.

    Raises:
        NotForUs: It is for other hardware.
        PlanError: It cannot be translated, or there is none of this name.
    """
    all_found = {each.name: each for each in found(path)}
    if name not in all_found:
        raise PlanError(f"{path}: found no command {name}; {nearest(name, all_found)}")
    each = all_found[name]

    def problem(line: int, sentence: str) -> str:
        return f"{path}:{each.line + line}: vllm serve: {sentence}"

    if any(_STATION.search(part) for part in path.parts):
        sentence = "found a playbook for a DGX Station; expected one for a DGX Spark"
        raise NotForUs("no GB10", problem(0, sentence))
    try:
        run = docker_run(each.text)
        line = _line(run) if run else _without_image(each.text)
        size = line.options.get("tensor-parallel-size", 1)
        if isinstance(size, int) and size > 2:
            sentence = f"found --tensor-parallel-size {size}; expected 1 or 2"
            number = line.lines["tensor-parallel-size"]
            raise NotForUs("more than two Sparks", problem(number, sentence))
        if run is None:
            sentence = "found no docker run that names its image; expected one"
            raise ShellError((line.lines["model"], sentence))
        for mount in run.mounts:
            if _CACHE not in mount:
                sentence = f"found -v {mount}; expected a container without folders of the host"
                raise ShellError((run.lines["image"], sentence))
    except ShellError as error:
        raise PlanError(*(problem(at, sentence) for at, sentence in error.found)) from None
    if "$" in run.image:
        sentence = f"found the image {run.image}, which a shell expands; expected the image itself"
        raise PlanError(problem(run.lines["image"], sentence))
    if size not in (1, 2):
        sentence = f"found --tensor-parallel-size {shown(size)}; expected 1 or 2"
        raise PlanError(problem(line.lines["tensor-parallel-size"], sentence))
    at = {"image": run.lines["image"], **{f"env.{key}": run.lines[key] for key in run.variables}}
    at |= {f"args.{key}": number for key, number in line.lines.items() if key != "model"}
    at |= {"checkpoints": line.lines["model"], "sparks": line.lines["model"]}
    draft = Draft(
        origin=origin,
        name=recipe_name(name),
        description=f"{line.model}, as NVIDIA's playbook {path.parent.name} starts it.",
        proven="By NVIDIA, whose playbook shows it; here, by nobody that we know of.",
        image=tagged(run.image),
        version=version_of(tagged(run.image), None, origin.day),
        model=line.model,
        options=line.options,
        env={**run.variables, **line.variables},
        lines={key: each.line + number for key, number in at.items()},
        key="vllm serve",
        sparks=[size],
    )
    return translated(draft)


def _without_image(text: str) -> ServeLine:
    """Read a line inside of a container that was started elsewhere."""
    for command in commands(text):
        words = [word.text for word in command]
        if "-c" in words and any(word in _BASH for word in words):
            return _moved(command[-1])
    return parse_line(text)


def _moved(script: Word) -> ServeLine:
    """Read the script of a shell's ``-c``, with the lines of the text that it is in."""
    line = parse_line(script.text)
    lines = {key: number + script.line for key, number in line.lines.items()}
    return ServeLine(line.model, line.options, line.variables, lines)


def _line(run: DockerRun) -> ServeLine:
    words = list(run.command)
    if words and words[0].text in _BASH:
        options = [word.text for word in words[1:-1]]
        if len(words) < 3 or options not in (["-c"], ["-lc"]):
            raise ShellError((words[0].line, "found a shell; expected vllm serve"))
        return _moved(words[-1])
    if [word.text for word in words[:2]] == ["vllm", "serve"]:
        return of_words(words[2:])
    if _ENTRY in run.image and words:
        return of_words(words)
    first = words[0] if words else Word("nothing", run.lines["image"])
    raise ShellError((first.line, f"found {first.text}; expected vllm serve"))
