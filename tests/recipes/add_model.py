"""Stores the sizes and shapes of a new recipe's models in files/models, for the memory plan.

    python -m tests.recipes.add_model WHAT… [--hf-endpoint URL]

WHAT is a recipe, by its name or file: what is absent of it is fetched, and its memory planned. Or
OWNER/NAME[@REVISION]: this checkpoint, anew. A gated repository needs HF_TOKEN.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence

from huggingface_hub import constants

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import write_file
from sparkwright.common.schema import parse
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.declared.recipe.recipe import Checkpoint
from sparkwright.plan.memory.known_checkpoints import (
    CheckpointData,
    checkpoint_data,
    data_file,
    show,
)
from sparkwright.plan.memory.plan import weights_size
from sparkwright.plan.release.resolve import CONFIG, HubRepository, resolve_checkpoint
from sparkwright.plan.release.web import WebClient
from tests.recipes import parser


def add(words: Sequence[str], endpoint: str | None, token: str | None) -> Iterator[str]:
    """Fetch the data of checkpoints into the source tree, and yield a line about each.

    Raises:
        PlanError: A hub cannot be asked, or a repository is no checkpoint that vLLM loads.
    """
    for checkpoint in _wanted(words):
        known = fetch(checkpoint, endpoint, token)
        path = data_file(checkpoint.repo)
        write_file(path, json.dumps(known.model_dump(), indent=2) + "\n")
        yield f"{path}: {known.size / 10**9:.1f} GB of weights"


def fetch(checkpoint: Checkpoint, endpoint: str | None, token: str | None) -> CheckpointData:
    """Ask the hub for the data of a checkpoint."""
    locked = resolve_checkpoint(checkpoint.repo, checkpoint.revision, endpoint, token)
    size = weights_size(locked)
    where = f"{checkpoint.repo}@{locked.commit}"
    hub = HubRepository(WebClient(), endpoint or constants.ENDPOINT, checkpoint.repo, token, where)
    config = hub.content(locked.commit, CONFIG) if CONFIG in locked.files else None
    if not config or not size:
        found = "safetensors files" if config else "object in config.json"
        raise PlanError(f"{where}: found no {found}; expected a checkpoint that vLLM loads")
    source = f"The Hub: {where}{f' of {locked.date}' if locked.date else ''}."
    return parse(CheckpointData, {"source": source, "size": size, "config": config}, where)


def is_recipe(word: str) -> bool:
    """Tell whether a word names a recipe, and no repository of the hub."""
    return "/" not in word or word.endswith((".yaml", ".yml"))


def _wanted(words: Iterable[str]) -> list[Checkpoint]:
    """Return the checkpoints to fetch, a repository once."""
    wanted: dict[str, Checkpoint] = {}
    for word in words:
        if is_recipe(word):
            models = load_recipe(word).whole_models.values()
            checkpoints = [each for each in models if checkpoint_data(each.repo) is None]
        else:
            repo, _, revision = word.partition("@")
            data = {"repo": repo, "revision": revision or "main", "folder": "model"}
            checkpoints = [parse(Checkpoint, data, word)]
        wanted |= {checkpoint.repo: checkpoint for checkpoint in checkpoints}
    return list(wanted.values())


def main(words: Sequence[str] | None = None) -> int:
    """Store what the words name. Returns 1 where that fails, or where a recipe does not fit."""
    command = parser("tests.recipes.add_model", __doc__)
    command.add_argument("what", nargs="+")
    command.add_argument("--hf-endpoint")
    options = command.parse_args(words)
    fits = True
    try:
        for line in add(options.what, options.hf_endpoint, os.environ.get("HF_TOKEN")):
            print(line)
        for recipe in filter(is_recipe, options.what):
            text, each = show(recipe)
            fits = fits and each
            print(text)
    except PlanError as error:
        print(error, file=sys.stderr)
        return 1
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())
