"""vLLM's command line, and what it refuses of a configuration before it loads anything."""

import argparse
import json
import os
import re
from pathlib import Path
from typing import Any

from standin import CAPTURED


def number(text: str) -> int:
    """Read 4096, 4k or 4K."""
    found = re.fullmatch(r"(\d+)([kmgKMG]?)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"Invalid number: {text}")
    base = 1024 if found[2].isupper() else 1000
    return int(found[1]) * base ** " kmg".index(found[2].lower() or " ")


def number_or_auto(text: str) -> int:
    """Read a number; `auto` is what the model can."""
    return -1 if text in ("auto", "-1") else number(text)


def settings(text: str) -> Any:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(text)
    return found


# By what a flag takes of the values that the capture tries.
_TYPES = {
    ("1",): int,
    ("1", "1.5"): float,
    ("1", "4k"): number,
    ("1", "4k", "auto"): number_or_auto,
    ("1", "1.5", "{}"): json.loads,
    ("{}",): settings,
}


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="vllm", usage="vllm [-h] [-v]")
    serve = whole.add_subparsers(dest="command").add_parser(
        "serve", prog="vllm serve", usage="vllm serve [model_tag] [options]"
    )
    serve.add_argument("model_tag", nargs="?")
    for flag in CAPTURED["flags"]:
        names = [name for name in flag["names"] if not name.startswith("--no-")]
        if len(names) < len(flag["names"]):
            serve.add_argument(*names, action=argparse.BooleanOptionalAction)
        elif flag["nargs"] == 0:
            serve.add_argument(*names, action="store_true")
        else:
            kind = _TYPES.get(tuple(flag["takes"]), str)
            choices = [kind(choice) for choice in flag["choices"]] or None
            serve.add_argument(*names, nargs=flag["nargs"], type=kind, choices=choices)
    serve.set_defaults(
        port=8000, tensor_parallel_size=1, nnodes=1, node_rank=0, master_addr="127.0.0.1"
    )
    serve.set_defaults(master_port=29501, max_num_seqs=256, shutdown_timeout=0)
    return whole


def check(options: argparse.Namespace) -> dict[str, Any]:
    """Return the configuration of the model, or refuse it in vLLM's words."""
    if not options.model_tag:
        raise ValueError(
            "`model` should be provided as the first positional argument when using `vllm serve`. "
            "i.e. `vllm serve <model> --<arg> <value>`."
        )
    if options.enable_auto_tool_choice and not options.tool_call_parser:
        raise TypeError("Error: --enable-auto-tool-choice requires --tool-call-parser")
    unknown = {name for name in os.environ if name.startswith("VLLM_")} - {*CAPTURED["variables"]}
    if unknown and options.fail_on_environ_validation:
        raise ValueError(f"Unknown vLLM environment variable detected: {unknown.pop()}")
    file = Path(options.model_tag) / "config.json"
    if not file.exists():
        raise ValueError(
            "1 validation error for ModelConfig\n  Value error, Invalid repository ID or local "
            f"directory specified: '{options.model_tag}'.\nPlease verify the following "
            "requirements:\n1. Provide a valid Hugging Face repository ID.\n2. Specify a local "
            "directory that contains a recognized configuration file.\n"
        )
    config: dict[str, Any] = json.loads(file.read_text()) | json.loads(options.hf_overrides or "{}")
    most = config.get("text_config", config)["max_position_embeddings"]
    options.max_model_len = most if options.max_model_len in (None, -1) else options.max_model_len
    if options.max_model_len > most:
        raise ValueError(
            "1 validation error for ModelConfig\n  Value error, User-specified max_model_len "
            f"({options.max_model_len}) is greater than the derived max_model_len "
            f"(max_position_embeddings={most:.1f} or model_max_length=None in model's config.json)"
        )
    known = CAPTURED["reasoning_parsers"]
    if options.reasoning_parser and options.reasoning_parser not in known:
        raise KeyError(
            f"Reasoning parser '{options.reasoning_parser}' not found. Available parsers: "
            + ", ".join(known)
        )
    return config
