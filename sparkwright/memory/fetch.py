"""Fetches the data of checkpoints: python -m sparkwright.memory.fetch --help."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence

import sparkwright
from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import write_file
from sparkwright.common.schema import parse
from sparkwright.memory.__main__ import main as print_plan
from sparkwright.memory.known_checkpoints import (
    MODELS,
    CheckpointData,
    checkpoint_data,
    data_file,
)
from sparkwright.memory.plan import weights_size
from sparkwright.recipe.loader import load_recipe
from sparkwright.recipe.recipe import Checkpoint
from sparkwright.release.resolve import resolve_with_config
from sparkwright.release.token import add_hub_options, hub_token


def fetch(checkpoint: Checkpoint, endpoint: str | None, token: str | None) -> CheckpointData:
    """Ask the hub for the data of a checkpoint.

    Raises:
        PlanError: As `resolve_with_config`; or it lacks weights or a ``config.json``.
    """
    locked, config = resolve_with_config(checkpoint.repo, checkpoint.revision, endpoint, token)
    size = weights_size(locked)
    where = f"{checkpoint.repo}@{locked.commit}"
    if not config or not size:
        found = "safetensors files" if config else "object in config.json"
        raise PlanError(f"{where}: found no {found}; expected a checkpoint that vLLM loads")
    source = f"The Hub: {where}{f' of {locked.date}' if locked.date else ''}."
    return parse(CheckpointData, {"source": source, "size": size, "config": config}, where)


def write(repo: str, known: CheckpointData) -> str:
    """Write the data of a checkpoint into files/models. Returns a line about it.

    Raises:
        PlanError: They cannot be written.
    """
    path = data_file(repo)
    data = {"source": known.source, "size": known.size, "config": known.config}
    try:
        write_file(path, json.dumps(data, indent=2) + "\n")
    except (OSError, RecursionError) as error:
        raise PlanError(f"{path}: cannot be written ({error})") from None
    return f"{path}: {known.size / 10**9:.1f} GB of weights"


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch data, and print the memory plans of recipes. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m sparkwright.memory.fetch",
        description="Fetch config.json and the size of the checkpoints that files/models lacks, "
        "for the memory plan and the check of Sparkwright's own recipes.",
    )
    parser.add_argument(
        "what",
        nargs="+",
        metavar="WHAT",
        help="a recipe, by its name or file: fetches what it lacks, and plans its memory; or "
        "OWNER/NAME[@REVISION]: fetches this checkpoint anew",
    )
    add_hub_options(parser)
    options = parser.parse_args(arguments)
    recipes = [word for word in options.what if _is_recipe(word)]
    try:
        _check_source_tree()
        wanted = _wanted(options.what)
        token = hub_token(options)
        for checkpoint in wanted:
            known = fetch(checkpoint, options.hf_endpoint, token)
            print(write(checkpoint.repo, known), flush=True)
    except PlanError as error:
        print(error, file=sys.stderr)
        return 1
    return max([print_plan([recipe]) for recipe in recipes], default=0)


def _check_source_tree() -> None:
    """Refuse to write into an installed package.

    Raises:
        PlanError: The files of an installed package are used.
    """
    if any(MODELS.is_relative_to(folder) for folder in sparkwright.__path__):
        raise PlanError(
            f"{MODELS}: found an installed package; expected a source tree of Sparkwright. For a "
            "recipe of your own, put it into your inventory, and `python -m deploys.lock` records "
            "the sizes of its checkpoints"
        )


def _is_recipe(word: str) -> bool:
    return "/" not in word or word.endswith((".yaml", ".yml"))


def _wanted(words: Iterable[str]) -> list[Checkpoint]:
    """Return the checkpoints to fetch, a repository once."""
    wanted: dict[str, Checkpoint] = {}
    for word in words:
        if _is_recipe(word):
            checkpoints = [
                checkpoint
                for checkpoint in load_recipe(word).whole_models.values()
                if checkpoint_data(checkpoint.repo) is None
            ]
        else:
            repo, _, revision = word.partition("@")
            data = {"repo": repo, "revision": revision or "main", "folder": "model"}
            checkpoints = [parse(Checkpoint, data, word)]
        wanted |= {checkpoint.repo: checkpoint for checkpoint in checkpoints}
    return list(wanted.values())


if __name__ == "__main__":
    sys.exit(main())
