"""Prints what an engine's command line accepts, as JSON; runs inside of its image's root.

Arguments, in JSON: command lines, to be judged by the engine's own parser; or "environment", for
the other names that vLLM knows.
"""

import argparse
import contextlib
import gc
import io
import json
import sys
from collections.abc import Iterator
from typing import Any

# A value of each kind that a flag may take: who takes which tells the kinds apart.
VALUES = ("1", "1.5", "4k", "auto", "word", "{}")


def parser() -> argparse.ArgumentParser:
    # What is imported stays: to look at it again and again takes a quarter of the time.
    gc.disable()
    try:
        from vllm.entrypoints.cli.serve import ServeSubcommand
        from vllm.utils.argparse_utils import FlexibleArgumentParser
    except ImportError:
        from standin.arguments import parser as stand_in

        return stand_in()
    made = FlexibleArgumentParser(prog="vllm")
    ServeSubcommand().subparser_init(made.add_subparsers(dest="subparser"))
    return made


def flags(whole: argparse.ArgumentParser) -> Iterator[dict[str, Any]]:
    """Yield each flag of `serve`: its names, how many values it takes, and which."""
    (commands,) = (a for a in whole._actions if isinstance(a, argparse._SubParsersAction))
    for action in commands.choices["serve"]._actions:
        if action.option_strings and "--help" not in action.option_strings:
            takes = [] if action.nargs == 0 else [v for v in VALUES if _takes(action, v)]
            choices = sorted(map(str, action.choices)) if action.choices else []
            names = action.option_strings
            yield {"names": names, "nargs": action.nargs, "takes": takes, "choices": choices}


def _takes(action: argparse.Action, value: str) -> bool:
    try:
        (action.type or str)(value)
    except (ValueError, TypeError, argparse.ArgumentTypeError):
        return False
    return True


def environment() -> dict[str, list[str]]:
    """Return the names that vLLM itself knows: its variables and its parsers of answers."""
    from vllm import envs
    from vllm.reasoning import ReasoningParserManager
    from vllm.tool_parsers import ToolParserManager

    return {
        "variables": sorted(envs.environment_variables),
        "tool_parsers": sorted(ToolParserManager.list_registered()),
        "reasoning_parsers": sorted(ReasoningParserManager.list_registered()),
    }


def judged(whole: argparse.ArgumentParser, line: list[str]) -> list[Any]:
    """Return the exit status that a line leads to, None if it is accepted, and the last words."""
    words = io.StringIO()
    try:
        with contextlib.redirect_stderr(words):
            whole.parse_args(line)
    except SystemExit as end:
        return [end.code, words.getvalue().strip().rpartition("\n")[2]]
    return [None, ""]


if __name__ == "__main__":
    known = parser()
    facts: dict[str, Any] = {"flags": [*flags(known)]}
    orders = [json.loads(argument) for argument in sys.argv[1:]]
    if "environment" in orders:
        facts |= environment()
    else:
        facts["judged"] = [judged(known, order) for order in orders]
    print(json.dumps(facts))
