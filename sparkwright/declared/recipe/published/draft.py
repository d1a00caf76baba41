"""A published recipe on its way to ours: what all formats have in common."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparkwright.common.errors import PlanError
from sparkwright.common.schema import shown
from sparkwright.common.terminal import plain
from sparkwright.declared.recipe.engine_log import LEVEL
from sparkwright.declared.recipe.mods import ModFolder
from sparkwright.declared.recipe.published.judge import judge, version_of
from sparkwright.declared.recipe.published.serve_line import OURS
from sparkwright.declared.recipe.rules import STALE
from sparkwright.declared.recipe.trust import OF_MODS
from sparkwright.declared.recipe.values import OWN_ENVIRONMENT, REPOSITORY
from sparkwright.declared.recipe.vllm_names import is_secret

# Seconds; published recipes have no such key. The slowest start that we know of took 14 minutes:
# 122 billion parameters on one Spark (docai.hu/en/blog/qwen35-122b-spark); twice that, rounded up.
START_TIMEOUT = 1800

_PARALLEL = ("pipeline-parallel-size", "data-parallel-size")
_LEFT_OUT = (*OURS, *_PARALLEL, "tensor-parallel-size", "revision", "served-model-name")
# Options that name a repository on the hub, which an engine never contacts -> our checkpoint.
_REPOSITORIES = {"tokenizer": "tokenizer", "spec-model": "drafter", "hf-config-path": "config"}
# Variables that name a Spark's links, which each finds itself, and what only a hub is asked with.
_OF_THE_SITE = (
    *OWN_ENVIRONMENT,
    *("MN_IF_NAME", "OMPI_MCA_btl_tcp_if_include", "HEAD_IP", "NODE_RANK", "MASTER_PORT"),
    *("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HOME", "HF_HUB_ENABLE_HF_TRANSFER"),
    "HF_XET_HIGH_PERFORMANCE",
)


class NotForUs(PlanError):
    """A recipe in which nothing is wrong, but that is for others, for a reason."""

    def __init__(self, reason: str, problem: str) -> None:
        self.reason = reason
        super().__init__(problem)


@dataclass(frozen=True)
class Origin:
    """The place of a published recipe, as our ``source`` says it, and folders of mods."""

    source: str
    mods: Sequence[Path] = ()


@dataclass
class Draft:
    """A published recipe, taken apart.

    Attributes:
        runs: Options and variables, as a recipe's ``args`` and ``env`` hold them, by the number of
            Sparks, the first of which counts; ``$`` stands for what a shell would have put in.
        lines: The line of the file, from 1, of what our keys say: ``args.NAME``, ``env.NAME``,
            ``image``, ``sparks``, ``checkpoints``.
        key: What the file calls its command, for messages.
    """

    path: Path
    origin: Origin
    name: str
    description: str
    proven: str
    image: str
    model: str
    runs: Mapping[int, tuple[Mapping[str, Any], Mapping[str, str]]]
    lines: dict[str, int]
    key: str
    revision: str | None = None
    mods: Sequence[ModFolder] = ()
    remarks: list[str] = field(default_factory=list)

    def at(self, key: str, sentence: str, name: str | None = None) -> str:
        """Say a sentence with the line of one of our keys."""
        return f"{self.path}:{self.lines.get(key, 1)}: {name or key}: {sentence}"


@dataclass(frozen=True)
class Translated:
    """The content of our file, with ``name``, and by its keys the lines of theirs, from 1.

    ``remarks`` are what whoever takes it should know, as ``FILE:LINE: …``.
    """

    path: Path
    data: dict[str, Any]
    lines: Mapping[str, int]
    mods: Sequence[ModFolder] = ()
    remarks: Sequence[str] = ()


def translated(draft: Draft) -> Translated:
    """Make a published recipe ours."""
    # Docker reads a name without a tag as the tag latest.
    image = draft.image
    image = image if re.search("[:@]", image.rpartition("/")[2]) else f"{image}:latest"
    vllm, by = version_of(image)
    checkpoints = {"model": _checkpoint(draft.model)}
    if draft.revision:
        checkpoints["model"]["revision"] = draft.revision
    (_, (options, env)), *others = draft.runs.items()
    first = {"args": _arguments(options, checkpoints), "env": _environment(env)}
    texts = [file.content for mod in draft.mods for file in mod.files.values()]
    verdict = judge(vllm, by, first["args"], first["env"], texts)
    told = [draft.at(key, sentence) for key, sentence in verdict.problems]
    if problems := [*_problems(draft, options, env), *told]:
        raise PlanError(*problems)
    served = options.get("served-model-name", draft.model)
    data: dict[str, Any] = {
        "name": re.sub(r"[^a-z0-9.-]+", "-", draft.name.lower()).strip(".-")[:63].strip(".-"),
        "description": plain(" ".join(draft.description.split())),
        "source": plain(draft.origin.source),
        "proven": draft.proven,
        "vllm": vllm,
        "judged_by": None if vllm == by and not verdict.unjudged else by,
        "unjudged": verdict.unjudged,
        "hardware": ["gb10"],
        "sparks": sorted(draft.runs),
        "image": {"base": image, "mods": [mod.path for mod in draft.mods]} if draft.mods else image,
        "checkpoints": checkpoints,
        "served_names": [str(name) for name in (served if isinstance(served, list) else [served])],
        **first,
        "start_timeout": START_TIMEOUT,
    }
    for count, (more, variables) in others:
        own = {"args": _arguments(more, checkpoints), "env": _environment(variables)}
        own = {
            kind: {name: each for name, each in values.items() if first[kind].get(name) != each}
            for kind, values in own.items()
        }
        if any(own.values()):
            data["by_sparks"] = {count: own}
    if options.get("runner") == "pooling":
        data["answers"] = _answers(draft.model, options)
    where = draft.lines.get("checkpoints", 1)
    lines = {"served_names": draft.lines.get("args.served-model-name", where), **draft.lines}
    lines["answers"] = draft.lines.get("args.runner", 1)
    remarks = [*draft.remarks, *(draft.at(key, sentence) for key, sentence in verdict.remarks)]
    return Translated(draft.path, data, lines, draft.mods, remarks)


def _problems(draft: Draft, options: Mapping[str, Any], env: Mapping[str, str]) -> Iterator[str]:
    if not REPOSITORY.fullmatch(draft.model):
        sentence = f"found the model {draft.model}; expected OWNER/NAME, as on the hub"
        yield draft.at("checkpoints", sentence, draft.key)
    speculative = options.get("speculative-config")
    drafter = speculative.get("model") if isinstance(speculative, dict) else None
    named = {"speculative-config": drafter, **{each: options.get(each) for each in _REPOSITORIES}}
    for option, value in named.items():
        if isinstance(value, str) and value.startswith(("/", ".", "~")):
            sentence = f"found {value}, a folder of its author's; expected OWNER/NAME on the hub"
            yield draft.at(f"args.{option}", sentence)
    for option in OF_MODS:
        file = str(options.get(option, ""))
        if file.endswith((".jinja", ".py")) and "/" not in file and not draft.mods:
            sentence = f"found --{option} {file}, a file that a mod brings; expected it left out, "
            yield draft.at(f"args.{option}", f"{sentence}or the file's path in the image")
    for option in _PARALLEL:
        if (size := options.get(option, 1)) != 1:
            sentence = f"found --{option} {shown(size)}; expected 1: Sparks of a replica share "
            yield draft.at(f"args.{option}", f"{sentence}each layer (tensor parallel)")
    for name, value in env.items():
        if name in OWN_ENVIRONMENT or (name in _OF_THE_SITE and "$" in value):
            continue
        if is_secret(name):
            sentence = "found a secret's name; expected no secret in a recipe"
            yield draft.at(f"env.{name}", sentence)
        elif "$" in value:
            found = "what a shell expands" if value == "$" else shown(value)
            yield draft.at(f"env.{name}", f"found {found}; expected the value itself")


def _answers(model: str, options: Mapping[str, Any]) -> str:
    """Return what a pooling model answers: scores, where a classifier or its name says so."""
    overrides = options.get("hf-overrides")
    architectures = str(overrides.get("architectures")) if isinstance(overrides, dict) else ""
    scores = "SequenceClassification" in architectures or "rerank" in model.lower()
    return "scores" if scores or options.get("convert") == "classify" else "embeddings"


def _checkpoint(repo: str) -> dict[str, Any]:
    since = next((stale.not_before for stale in STALE if stale.repo == repo), None)
    return {"repo": repo, "folder": repo.replace("/", "--"), "not_before": since}


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    left_out = (*OWN_ENVIRONMENT, LEVEL)
    return {key: value for key, value in env.items() if key not in left_out and "$" not in value}


def _arguments(options: Mapping[str, Any], checkpoints: dict[str, Any]) -> dict[str, Any]:
    """Return the options that stay, with ${NAME} for each repository, which joins checkpoints."""

    def local(name: str, value: Any) -> Any:
        if not isinstance(value, str) or not REPOSITORY.fullmatch(value):
            return value
        known = {checkpoint["repo"]: each for each, checkpoint in checkpoints.items()}
        name = known.get(value, name)
        checkpoints.setdefault(name, _checkpoint(value))
        return f"${{{name}}}"

    args = {key: value for key, value in options.items() if key not in _LEFT_OUT}
    args |= {key: local(name, args[key]) for key, name in _REPOSITORIES.items() if key in args}
    speculative = args.get("speculative-config")
    if isinstance(speculative, dict) and "model" in speculative:
        args["speculative-config"] = speculative | {"model": local("drafter", speculative["model"])}
    return args
