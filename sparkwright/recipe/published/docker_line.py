"""Reads a `docker run` line that was written for a shell: image, variables, and what it runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sparkwright.recipe.published.shell import ShellError, Word, commands

# Options of `docker run` without a value (docs.docker.com/reference/cli/docker/container/run).
_FLAGS = re.compile(
    r"--(rm|detach|interactive|tty|privileged|init|read-only|no-healthcheck|publish-all|quiet)"
    r"|-[ditP]+"
)
_ENVIRONMENT = ("-e", "--env")
_NAME = re.compile(r"[A-Za-z_]\w*")
# A variable of the text itself, which it sets before it uses it.
_USE = re.compile(r"\$\{?(?P<name>[A-Za-z_]\w*)\}?")


@dataclass(frozen=True)
class DockerRun:
    """What a `docker run` line says.

    Attributes:
        image: As it is written, with the values of variables that the text sets itself.
        variables: Of the container; ``$`` stands for what a shell would put in.
        lines: Numbers of the lines, from 0, of variables and, as ``image``, of the image.
        command: The words behind the image, the entrypoint in front of them.
        mounts: The folders of the host that it binds.
    """

    image: str
    variables: Mapping[str, str]
    lines: Mapping[str, int]
    command: Sequence[Word] = ()
    mounts: Sequence[str] = field(default_factory=tuple)


def docker_run(text: str) -> DockerRun | None:
    """Read the first `docker run` of a text; None: there is none.

    Raises:
        ShellError: It cannot be read.
    """
    values: dict[str, str] = {}
    for command in commands(text):
        words = command[1:] if command[0].operator else command
        starts = [word.text for word in words[:2]]
        if starts == ["docker", "run"]:
            return _read(words[2:], values)
        for word in words[1:] if starts[:1] == ["export"] else words:
            name, equals, value = word.text.partition("=")
            if equals and not word.expands and _NAME.fullmatch(name):
                values[name] = value
    return None


def _read(words: list[Word], values: Mapping[str, str]) -> DockerRun:
    variables: dict[str, str] = {}
    lines: dict[str, int] = {}
    mounts: list[str] = []
    entry: list[Word] = []
    rest = list(words)
    while rest and rest[0].text.startswith("-"):
        option = rest.pop(0)
        name, equals, value = option.text.partition("=")
        if _FLAGS.fullmatch(name):
            continue
        given = Word(value, option.line, option.expands)
        if not equals:
            if not rest:
                raise ShellError((option.line, f"found {name} at the end; expected its value"))
            given = rest.pop(0)
        if name in _ENVIRONMENT:
            variable, _, text = given.text.partition("=")
            variables[variable] = "$" if given.expands or "=" not in given.text else text
            lines[variable] = given.line
        elif name in ("-v", "--volume", "--mount"):
            mounts.append(given.text)
        elif name == "--entrypoint":
            entry = [given]
    if not rest:
        line = words[-1].line if words else 0
        raise ShellError((line, "found docker run without an image; expected one"))
    image, command = rest[0], rest[1:]
    lines["image"] = image.line
    filled = _USE.sub(lambda match: values.get(match["name"], match[0]), image.text)
    return DockerRun(filled, variables, lines, [*entry, *command], tuple(mounts))
