"""The checkpoints that recipes name, without weights: config.json, and a tokenizer.

The tokenizer is the tiny model's: it has the tokens that parsers look up.
"""

from __future__ import annotations

import functools
import json

from sparkwright.plan.memory.known_checkpoints import checkpoint_data
from tests.lab import tiny_model, tiny_texts, tiny_tokenizer

# Those that the lab makes.
TINY = {
    "sparkwright/tiny-qwen3.5-moe": tiny_model.ensure_models,
    "sparkwright/tiny-qwen3-texts": tiny_texts.ensure_models,
}


@functools.cache
def files_of(repo: str) -> dict[str, str] | None:
    """Return the files of a checkpoint by name; None if files/models has no data of it."""
    if repo in TINY:
        folder = TINY[repo]() / "model"
        small = [path for path in folder.iterdir() if "safetensors" not in path.name]
        return {path.name: path.read_text() for path in small}
    known = checkpoint_data(repo)
    if known is None:
        return None
    files = {
        "config.json": known.config,
        "tokenizer.json": tiny_tokenizer.tokenizer(),
        "tokenizer_config.json": tiny_tokenizer.config(tiny_model.CONTEXT),
    }
    return {name: json.dumps(content) for name, content in files.items()}
