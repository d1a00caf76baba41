"""A published recipe on its way to ours: what all formats have in common."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Literal

from sparkwright.common.errors import PlanError
from sparkwright.common.schema import shown
from sparkwright.recipe.engine_log import LEVEL
from sparkwright.recipe.published.judge import judge
from sparkwright.recipe.published.serve_line import OURS
from sparkwright.recipe.published.versions import version_of
from sparkwright.recipe.rules import STALE
from sparkwright.recipe.values import OWN_ENVIRONMENT, REPOSITORY
from sparkwright.recipe.vllm_names import is_secret

# Seconds; published recipes have no such key. The slowest start that we know of took 14 minutes:
# 122 billion parameters on one Spark (docai.hu/en/blog/qwen35-122b-spark); twice that, rounded up.
START_TIMEOUT = 1800

_FILES = ("chat-template", "tool-parser-plugin", "reasoning-parser-plugin")
_PARALLEL = ("pipeline-parallel-size", "data-parallel-size")
# Options that name a repository on the hub, which an engine never contacts -> our checkpoint.
_REPOSITORIES = {"tokenizer": "tokenizer", "spec-model": "drafter", "hf-config-path": "config"}
# Variables that name a Spark's links, which each finds itself, and what only a hub is asked with.
_OF_THE_SITE = (
    *OWN_ENVIRONMENT,
    *("MN_IF_NAME", "OMPI_MCA_btl_tcp_if_include", "HEAD_IP", "NODE_RANK", "MASTER_PORT"),
    *("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HOME", "HF_HUB_ENABLE_HF_TRANSFER"),
    "HF_XET_HIGH_PERFORMANCE",
)

# Why a recipe is for others than the owners of one Spark or two.
Reason = Literal["another engine", "more than two Sparks", "no GB10"]


class NotForUs(PlanError):
    """A recipe in which nothing is wrong, but that is for others.

    Attributes:
        reason: Why.
    """

    def __init__(self, reason: Reason, *problems: str) -> None:
        self.reason = reason
        super().__init__(*problems)


@dataclass(frozen=True)
class Origin:
    """Where a published recipe comes from.

    Attributes:
        file: As messages name it.
        source: What our ``source`` says: URL, path and commit.
        day: Of the commit; None: it is not known.
        mods: Folders below which mods are looked for, in this order; empty: none are at hand.
    """

    file: Path
    source: str = ""
    day: date | None = None
    mods: Sequence[Path] = ()


@dataclass
class Draft:
    """A published recipe, taken apart.

    Attributes:
        image: A name without a tag stands for the tag latest, as with Docker.
        model: The checkpoint, OWNER/NAME.
        options: vLLM's, as a recipe's ``args`` hold them.
        env: Variables; ``$`` stands for what a shell would have put in.
        lines: The line of the file, from 1, of what our keys say: ``args.NAME``, ``env.NAME``,
            ``image``, ``sparks``, ``checkpoints``.
        key: What the file calls its command, for messages.
        by_sparks: Options and variables with another number of them.
        mods: Folders of the mods, in the order of their use.
        said: The vLLM that it says the image has.
        least: The oldest release that it says it needs.
        remarks: What whoever takes it should know, as ``FILE:LINE: …``.
    """

    origin: Origin
    name: str
    description: str
    proven: str
    image: str
    model: str
    options: Mapping[str, Any]
    env: Mapping[str, str]
    lines: Mapping[str, int]
    key: str
    sparks: list[int]
    by_sparks: Mapping[int, tuple[Mapping[str, Any], Mapping[str, str]]] = field(
        default_factory=dict
    )
    hardware: list[str] = field(default_factory=lambda: ["gb10"])
    revision: str | None = None
    mods: Sequence[Path] = ()
    said: object = None
    least: object = None
    remarks: Sequence[str] = ()

    def at(self, key: str, sentence: str, name: str | None = None) -> str:
        """Say a sentence with the line of one of our keys."""
        return f"{self.origin.file}:{self.lines.get(key, 1)}: {name or self.key}: {sentence}"


@dataclass(frozen=True)
class Translated:
    """Our form of a published recipe.

    Attributes:
        data: The content of our file, and ``name``.
        lines: The line of theirs, from 1, by our keys.
        remarks: What whoever takes it should know, as ``FILE:LINE: …``.
    """

    data: dict[str, Any]
    lines: Mapping[str, int]
    remarks: Sequence[str] = ()


def translated(draft: Draft) -> Translated:
    """Make a published recipe ours.

    Raises:
        PlanError: What cannot be carried over, and what the nearest vLLM lacks, each with its line.
    """
    image = tagged(draft.image)
    said, least = (str(each) if each else None for each in (draft.said, draft.least))
    version = version_of(image, said, draft.origin.day, least)
    checkpoints = {"model": _checkpoint(draft.model)}
    if draft.revision:
        checkpoints["model"]["revision"] = draft.revision
    args, env = _arguments(draft.options, checkpoints), _environment(draft.env)
    verdict = judge(version, image, args, env, draft.mods)
    problems = [draft.at(key, sentence, key) for key, sentence in verdict.problems]
    if problems := [*_problems(draft), *problems]:
        raise PlanError(*problems)
    served = draft.options.get("served-model-name", draft.model)
    data: dict[str, Any] = {
        "name": draft.name,
        "description": " ".join(draft.description.split()),
        "source": draft.origin.source or f"{draft.origin.file.name}, a recipe of another project.",
        "proven": draft.proven,
        "vllm": version.vllm,
        "judged_by": version.judge if verdict.unjudged else version.judged_by,
        "unjudged": verdict.unjudged,
        "hardware": draft.hardware,
        "sparks": draft.sparks,
        "image": {"base": image, "mods": [*draft.mods]} if draft.mods else image,
        "checkpoints": checkpoints,
        "served_names": [str(name) for name in (served if isinstance(served, list) else [served])],
        "args": args,
        "env": env,
        "start_timeout": START_TIMEOUT,
    }
    for count, (options, variables) in draft.by_sparks.items():
        theirs = {"args": _arguments(options, checkpoints), "env": _environment(variables)}
        own = {
            kind: {name: each for name, each in values.items() if data[kind].get(name) != each}
            for kind, values in theirs.items()
        }
        if any(own.values()):
            data["by_sparks"] = {count: own}
    if not data["judged_by"]:
        del data["judged_by"]
    if draft.options.get("runner") == "pooling":
        data["answers"] = _answers(draft)
    first = draft.lines.get("checkpoints", 1)
    lines = {"served_names": draft.lines.get("args.served-model-name", first), **draft.lines}
    lines["answers"] = draft.lines.get("args.runner", 1)
    remarks = [draft.at(key, sentence, key) for key, sentence in verdict.remarks]
    return Translated(data, lines, [*draft.remarks, *remarks])


def recipe_name(*words: str) -> str:
    """Make the name of a recipe of words that may have any characters."""
    return re.sub(r"[^a-z0-9.-]+", "-", "-".join(words).lower()).strip(".-")[:63].strip(".-")


def tagged(image: str) -> str:
    """Return an image with its tag: Docker reads a name without one as the tag latest."""
    name = image.rpartition("/")[2]
    return image if ":" in name or "@" in name else f"{image}:latest"


def _problems(draft: Draft) -> Iterator[str]:
    if not REPOSITORY.fullmatch(draft.model):
        yield draft.at(
            "checkpoints", f"found the model {draft.model}; expected OWNER/NAME, as on the hub"
        )
    speculative = draft.options.get("speculative-config")
    drafter = speculative.get("model") if isinstance(speculative, dict) else None
    for option, value in [("speculative-config", drafter), *draft.options.items()]:
        named = option == "speculative-config" or option in _REPOSITORIES
        if named and isinstance(value, str) and value.startswith(("/", ".", "~")):
            sentence = f"found {value}, a folder of its author's; expected OWNER/NAME on the hub"
            yield draft.at(f"args.{option}", sentence, f"args.{option}")
    for option in _FILES:
        file = str(draft.options.get(option, ""))
        if file.endswith((".jinja", ".py")) and "/" not in file and not draft.mods:
            yield draft.at(
                f"args.{option}",
                f"found --{option} {file}, a file that a mod brings; expected it left out, or the "
                "file's path in the image",
            )
    for option in _PARALLEL:
        size = draft.options.get(option, 1)
        if size != 1:
            yield draft.at(
                f"args.{option}",
                f"found --{option} {shown(size)}; expected 1: Sparks of a replica share each layer "
                "(tensor parallel)",
            )
    for name, value in draft.env.items():
        if name in OWN_ENVIRONMENT or (name in _OF_THE_SITE and "$" in value):
            continue
        if is_secret(name):
            sentence = "found a secret's name; expected no secret in a recipe"
            yield draft.at(f"env.{name}", sentence, f"env.{name}")
        elif "$" in value:
            found = "what a shell expands" if value == "$" else shown(value)
            yield draft.at(
                f"env.{name}", f"found {found}; expected the value itself", f"env.{name}"
            )


def _answers(draft: Draft) -> str:
    """Return what a pooling model answers: scores, where a classifier or its name says so."""
    overrides = draft.options.get("hf-overrides")
    architectures = str(overrides.get("architectures")) if isinstance(overrides, dict) else ""
    scores = "SequenceClassification" in architectures or "rerank" in draft.model.lower()
    return "scores" if scores or draft.options.get("convert") == "classify" else "embeddings"


def _checkpoint(repo: str) -> dict[str, Any]:
    since = next((stale.not_before for stale in STALE if stale.repo == repo), None)
    return {"repo": repo, "folder": repo.replace("/", "--"), "not_before": since}


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    left_out = (*OWN_ENVIRONMENT, LEVEL)
    return {key: value for key, value in env.items() if key not in left_out and "$" not in value}


def _arguments(
    options: Mapping[str, Any], checkpoints: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return the options that stay, with ${NAME} for each repository, which joins checkpoints."""

    def local(name: str, value: Any) -> Any:
        if not isinstance(value, str) or not REPOSITORY.fullmatch(value):
            return value
        known = {checkpoint["repo"]: each for each, checkpoint in checkpoints.items()}
        name = known.get(value, name)
        checkpoints.setdefault(name, _checkpoint(value))
        return f"${{{name}}}"

    left_out = (*OURS, *_PARALLEL, "tensor-parallel-size", "revision", "served-model-name")
    args = {key: value for key, value in options.items() if key not in left_out}
    for key, name in _REPOSITORIES.items():
        if key in args:
            args[key] = local(name, args[key])
    speculative = args.get("speculative-config")
    if isinstance(speculative, dict) and "model" in speculative:
        model = local("drafter", speculative["model"])
        args["speculative-config"] = {**speculative, "model": model}
    return args
