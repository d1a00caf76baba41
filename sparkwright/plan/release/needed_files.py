"""The files of a repository that an engine reads.

Repositories have copies of one model beside each other: openai/gpt-oss-120b has three, 182 GB, of
which vLLM reads 61 (spark-arena/sparkrun, 239). What is left out here is what the loader of vLLM
0.17 to 0.33 leaves alone in a folder (model_loader/default_loader.py), and copies for others.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from sparkwright.common.errors import PlanError, refuse
from sparkwright.declared.recipe.recipe import Recipe

# How the weights are read: as the library transformers has them, as Mistral has them, or by a
# loader of which nothing is known here.
Format = Literal["transformers", "mistral", "any"]
_TRANSFORMERS = {"auto", "hf", "safetensors", "fastsafetensors", "instanttensor", "dummy"}

# Text and tokenizers, which vLLM and transformers read by names that differ with each model.
_TEXT = (
    *(".json", ".jinja", ".txt", ".py", ".md", ".yaml", ".yml", ".toml", ".csv", ".jsonl"),
    *(".model", ".tiktoken", ".vocab", ".spm", ".bpe"),
)
_PAPERS = re.compile(r"(LICEN[CS]E|README|NOTICE|COPYING|USAGE_?POLICY)[^/]*", re.IGNORECASE)
# Folders with the same model for other programs, or with pictures.
_COPIES = {
    *("original", "metal", "onnx", "openvino", "coreml", "gguf", "mlx", "tflite", "flax", "tf"),
    *("assets", "images", "figures", "media", "examples", "demo"),
}
# Bytes above which a text in a folder is data, not something that is read with a model.
_SMALL = 4 * 1024 * 1024
# A module of the library sentence-transformers, such as 1_Pooling or 2_Dense.
_MODULE = re.compile(r"[0-9]+_[A-Za-z0-9]+/[^/]+")
# What a training leaves, which vLLM does not load (filter_files_not_needed_for_inference).
_TRAINING = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scaler.pt")
_SHARD = re.compile(r"(.+)-([0-9]{5})-of-([0-9]{5})(\.\w+)")
_INDICES = (".safetensors.index.json", ".bin.index.json")


@dataclass(frozen=True)
class Choice:
    """How the files of a checkpoint are chosen: by patterns, or by rules for a format."""

    patterns: tuple[str, ...] = ()
    format: Format = "transformers"


def choice_of(recipe: Recipe, name: str) -> Choice:
    """Return how the files of one checkpoint of a recipe are chosen."""
    patterns = tuple(recipe.checkpoints[name].files or ())
    settings = (recipe, *recipe.by_sparks.values()) if name == "model" else ()
    formats = {str(each.args.get("load-format", "auto")) for each in settings}
    if "mistral" in {*formats, *(each.args.get("config-format") for each in settings)}:
        return Choice(patterns, "mistral")
    return Choice(patterns, "transformers" if formats <= _TRANSFORMERS else "any")


def needed(
    sizes: Mapping[str, int],
    choice: Choice,
    shards: Callable[[str], Collection[str]],
    where: str,
) -> frozenset[str]:
    """Choose the files that an engine reads, of all files of a repository with their bytes.

    `shards` returns the files that an index of the repository names; none if that is too large.
    """
    weights = _weights(sizes, choice)
    index = next((path for path in weights if path.endswith(_INDICES)), None)
    if choice.patterns:
        chosen = _matching(sizes, choice.patterns, where)
        if index in chosen:
            _check(shards(index), chosen, f"{where}: {index}", choice.patterns)
        _check(_numbered(chosen), chosen, where, choice.patterns)
        return frozenset(chosen)
    if choice.format == "any" or not weights:
        return frozenset(sizes)
    if index and (named := shards(index)):
        _check(named, sizes, f"{where}: {index}")
        weights = {index, *named}
    _check(_numbered(weights), sizes, where)
    texts = {path for path in sizes if _is_text(path, sizes[path])}
    return frozenset(weights | texts | _module_weights(sizes))


def _weights(sizes: Mapping[str, int], choice: Choice) -> set[str]:
    """Return one set of weights with its index."""
    top = {path for path in sizes if "/" not in path}
    tensors = {path for path in top if path.endswith(".safetensors")}
    mistral = {path for path in tensors if path.startswith("consolidated")}
    others = tensors - mistral
    found, index = others, "model.safetensors.index.json"
    if mistral and (choice.format == "mistral" or not others):
        found, index = mistral, "consolidated.safetensors.index.json"
    if not tensors:
        found, index = _of_kind(top, ".bin") or _of_kind(top, ".pt"), "pytorch_model.bin.index.json"
    return found | ({index} & top if found else set())


def _of_kind(paths: Iterable[str], suffix: str) -> set[str]:
    return {path for path in paths if path.endswith(suffix) and not path.endswith(_TRAINING)}


def _module_weights(sizes: Mapping[str, int]) -> set[str]:
    """Return the weights in the modules of sentence-transformers, of each module one file."""
    found = {path for path in sizes if _MODULE.fullmatch(path)}
    tensors = _of_kind(found, ".safetensors")
    have = {path.partition("/")[0] for path in tensors}
    return tensors | {p for p in _of_kind(found, ".bin") if p.partition("/")[0] not in have}


def _is_text(path: str, size: int) -> bool:
    *folders, name = path.split("/")
    if name.startswith(".") or _COPIES & {folder.lower() for folder in folders}:
        return False
    # An index is chosen with the set of weights that it lists.
    if path.endswith(_INDICES) or not (name.lower().endswith(_TEXT) or _PAPERS.fullmatch(name)):
        return False
    return not folders or size <= _SMALL


def _matching(sizes: Mapping[str, int], patterns: Collection[str], where: str) -> set[str]:
    found: set[str] = set()
    problems: list[str] = []
    for pattern in patterns:
        whole = f"{pattern}*" if pattern.endswith("/") else pattern
        found |= (paths := {path for path in sizes if fnmatchcase(path, whole)})
        if not paths:
            expected = f"a pattern of one of its {len(sizes)} files"
            problems.append(f"{where}: files: found no file for {pattern}; expected {expected}")
    refuse(problems)
    return found


def _numbered(weights: Collection[str]) -> set[str]:
    """Return the shards that the numbers in names promise; of a large set, one that lacks."""
    matches = filter(None, map(_SHARD.fullmatch, weights))
    families = Counter((match[1], match[3], match[4]) for match in matches)
    return {
        f"{stem}-{number:05}-of-{count}{suffix}"
        for (stem, count, suffix), have in families.items()
        for number in range(1, min(int(count), have + 1) + 1)
    }


def _check(
    wanted: Collection[str], there: Collection[str], where: str, patterns: Collection[str] = ()
) -> None:
    if missing := sorted({*wanted} - {*there}):
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        expected = "every shard: the repository is not complete. Take another commit (`revision`)"
        if patterns:
            expected = f"it among the recipe's `files` ({', '.join(patterns)})"
        raise PlanError(f"{where}: found no shard {missing[0][:200]}{more}; expected {expected}")
