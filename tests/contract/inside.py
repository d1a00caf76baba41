"""Prints what an engine's command line accepts, as JSON; runs inside of its image's root.

The word "environment" has it print the other names that vLLM knows, too.
"""

import argparse
import gc
import json
import sys
from collections.abc import Iterator
from typing import Any

# A value of each kind that a flag may take: who takes which tells the kinds apart.
VALUES = ("1", "1.5", "4k", "auto", "word", "{}")


def parser() -> argparse.ArgumentParser:
    """Return the engine's own parser of `vllm serve …`."""
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


if __name__ == "__main__":
    facts: dict[str, Any] = {"flags": [*flags(parser())]}
    if "environment" in sys.argv:
        facts |= environment()
    print(json.dumps(facts))
