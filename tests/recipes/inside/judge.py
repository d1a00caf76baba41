"""Asks the parser and the configuration of a release of vLLM about lines that start it.

Runs in the engine image's Python. Reads JSON from standard input: `hardware` (a class, or null for
the image's own build for CPUs), and `lines`, each with `words` (after `vllm`), `variables` and
`models` (files by folder of /models; null: the model is not known, and no configuration is made).
Writes a list of problems for each line.

A problem is a mapping: `option` or `variable` or `field` (of a class of vLLM's configuration) says
what it is about, if that is known; `known` the options or variables that there are, if it is none
of them; `names` what its value could be; `words` what vLLM says.
"""

import contextlib
import io
import json
import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from inside import gpu

Line = Mapping[str, Any]
Problem = dict[str, Any]


def main() -> None:
    """Answer one request."""
    answer, sys.stdout = sys.stdout, sys.stderr  # vLLM's log is no part of the answer
    request = json.load(sys.stdin)
    if request["hardware"]:
        gpu.present(gpu.GPUS[request["hardware"]])
    gpu.inspect_models_here()
    judge = Judge()
    json.dump([judge.problems(line) for line in request["lines"]], answer)


class Judge:
    """The parser of `vllm serve`, made once: importing vLLM takes seconds."""

    def __init__(self) -> None:
        from vllm.utils.argparse_utils import FlexibleArgumentParser

        module = _first("entrypoints.common", "entrypoints.launchers", "entrypoints.openai")
        self._validate = module.validate_parsed_serve_args
        self._parser = FlexibleArgumentParser(prog="vllm")
        serve = self._parser.add_subparsers(dest="subparser").add_parser("serve")
        module.make_arg_parser(serve)
        self.options = sorted({name for action in serve._actions for name in action.option_strings})

    def problems(self, line: Line) -> list[Problem]:
        """Return what vLLM has against a line; its variables, the next line does not see."""
        _write(line["models"] or {})
        with mock.patch.dict(os.environ, line["variables"]):
            unknown = list(self._unknown_options(line["words"]))
            problems = [*_variables(line["variables"]), *unknown]
            if any(self._is_none(problem["option"]) for problem in unknown):
                return problems  # the parser would only say so again
            try:
                parsed = self._parse(line["words"])
            except (TypeError, ValueError) as error:
                return [*problems, _argparse(str(error))]
            problems += _names(parsed)
            if not problems and line["models"]:
                problems += _configuration(parsed)
            return problems

    def _unknown_options(self, words: Sequence[str]) -> Iterator[Problem]:
        """Find options that are none, or only the beginning of one: argparse takes those."""
        for word in words:
            name = re.split("[=.]", word)[0].replace("_", "-")
            if word.startswith("--") and name not in self.options:
                yield {"option": name, "known": self.options}

    def _is_none(self, option: str) -> bool:
        return not any(name.startswith(option) for name in self.options)

    def _parse(self, words: Sequence[str]) -> Namespace:
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                parsed = self._parser.parse_args(words)
                parsed.model = parsed.model_tag
                self._validate(parsed)
        except SystemExit:
            raise ValueError(said.getvalue().strip().splitlines()[-1]) from None
        return parsed


def _write(models: Mapping[str, Mapping[str, str]]) -> None:
    for folder, files in models.items():
        for name, content in files.items():
            path = Path("/models", folder, name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(content)


def _first(*packages: str) -> ModuleType:
    """Return the module of vLLM's command line, which has moved twice."""
    for package in packages:
        with contextlib.suppress(ImportError):
            return __import__(f"vllm.{package}.cli_args", fromlist=["cli_args"])
    raise ImportError(f"vLLM has its command line in none of {packages}")


def _variables(variables: Mapping[str, str]) -> Iterator[Problem]:
    """Find variables of vLLM that this release does not know, or whose value it cannot read."""
    from vllm import envs

    for name in variables:
        if not name.startswith("VLLM_"):
            continue
        if name not in envs.environment_variables:
            yield {"variable": name, "known": sorted(envs.environment_variables)}
            continue
        try:
            envs.environment_variables[name]()
        except ValueError as error:
            yield {"variable": name, "words": str(error)}


def _argparse(words: str) -> Problem:
    """Take apart what argparse says."""
    about = re.search(r"argument (?:\S+/)?(--[\w-]+)", words)
    choices = re.search(r"\(choose from (.*)\)", words)
    problem = {"words": words.partition("error: ")[2] or words}
    if about:
        problem["option"] = about[1]
    if choices:
        problem["names"] = re.findall(r"[\w.-]+", choices[1])
    return problem


def _names(parsed: Namespace) -> Iterator[Problem]:
    """Find names that the server looks up only while it starts."""
    from vllm.model_executor.model_loader import _LOAD_FORMAT_TO_MODEL_LOADER
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    if parsed.tool_parser_plugin:
        ToolParserManager.import_tool_parser(parsed.tool_parser_plugin)
    known = {
        "tool_call_parser": ToolParserManager.list_registered(),
        "reasoning_parser": ReasoningParserManager.list_registered(),
        "load_format": list(_LOAD_FORMAT_TO_MODEL_LOADER),
    }
    for name, names in known.items():
        value = getattr(parsed, name)
        if value and value not in names:
            yield {"option": "--" + name.replace("_", "-"), "names": sorted(names)}


def _configuration(parsed: Namespace) -> Iterator[Problem]:
    """Let vLLM make its whole configuration; the engine would start with it."""
    from pydantic import ValidationError
    from vllm.engine.arg_utils import AsyncEngineArgs
    from vllm.usage.usage_lib import UsageContext

    try:
        AsyncEngineArgs.from_cli_args(parsed).create_engine_config(
            usage_context=UsageContext.OPENAI_API_SERVER, headless=parsed.headless
        )
    except ValidationError as error:
        for detail in error.errors(include_input=False, include_url=False):
            field = [error.title, *map(str, detail["loc"])]
            names = re.findall(r"'([^']+)'", detail.get("ctx", {}).get("expected", ""))
            words = detail["msg"].removeprefix("Value error, ")
            yield {"field": field, "words": words} | ({"names": names} if names else {})
    except Exception as error:
        yield {"words": str(error) or type(error).__name__}


if __name__ == "__main__":
    main()
