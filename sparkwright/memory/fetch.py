"""Fetches the data of checkpoints, for the memory plan of Sparkwright's own recipes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

import sparkwright
from sparkwright.common.command_line import next_line
from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import write_file
from sparkwright.common.schema import parse
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
from sparkwright.release.token import Hub


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


def add(words: Sequence[str], hub: Hub) -> Iterator[str]:
    """Fetch the data of checkpoints into the source tree. Yields a line about each.

    Args:
        words: Recipes, by name or file, of which what is absent is fetched; or
            ``OWNER/NAME[@REVISION]``, which is fetched anew.

    Raises:
        PlanError: As `fetch` and `write`, or this is no source tree.
    """
    _check_source_tree()
    wanted = _wanted(words)
    token = hub.token()
    for checkpoint in wanted:
        yield write(checkpoint.repo, fetch(checkpoint, hub.endpoint, token))


def _check_source_tree() -> None:
    """Refuse to write into an installed package.

    Raises:
        PlanError: The files of an installed package are used.
    """
    if any(MODELS.is_relative_to(folder) for folder in sparkwright.__path__):
        raise PlanError(
            f"{MODELS}: found an installed package; expected a source tree of Sparkwright. For a "
            "recipe of your own, put it into your inventory, and "
            f"`{next_line('lock')}` records the sizes of its checkpoints"
        )


def is_recipe(word: str) -> bool:
    return "/" not in word or word.endswith((".yaml", ".yml"))


def _wanted(words: Iterable[str]) -> list[Checkpoint]:
    """Return the checkpoints to fetch, a repository once."""
    wanted: dict[str, Checkpoint] = {}
    for word in words:
        if is_recipe(word):
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
