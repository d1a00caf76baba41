"""A published recipe made one of ours, once the nearest release of vLLM has judged its names.

The table of names has no values: whether an option takes the one given, only vLLM itself can tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkwright.common.errors import PlanError, refuse
from sparkwright.common.schema import nearest, shown
from sparkwright.common.terminal import plain
from sparkwright.declared.recipe import vllm_names
from sparkwright.declared.recipe.loader import checked
from sparkwright.declared.recipe.mods import ModFolder
from sparkwright.declared.recipe.published.document import Document
from sparkwright.declared.recipe.published.serve_line import OURS
from sparkwright.declared.recipe.recipe import UNKNOWN_VLLM, Recipe
from sparkwright.declared.recipe.rules import STALE
from sparkwright.declared.recipe.trust import OF_MODS
from sparkwright.declared.recipe.values import LOG_LEVEL, OWN_ENVIRONMENT, REPOSITORY
from sparkwright.declared.recipe.vllm_names import Release, is_secret, number

# Seconds; published recipes have no such key. The slowest start that we know of took 14 minutes:
# 122 billion parameters on one Spark (docai.hu/en/blog/qwen35-122b-spark); twice that, rounded up.
_START_TIMEOUT = 1800

# Of a size of 1, nothing is said.
PARALLEL = ("pipeline-parallel-size", "data-parallel-size")
_LEFT_OUT = (*OURS, "tensor-parallel-size", "revision", "served-model-name")
# Options that name a repository on the hub, which an engine never contacts -> our checkpoint.
_REPOSITORIES = {"tokenizer": "tokenizer", "spec-model": "drafter", "hf-config-path": "config"}
# Variables that name a Spark's links, which each finds itself, and what only a hub is asked with.
_OF_THE_SITE = (
    *OWN_ENVIRONMENT,
    *("MN_IF_NAME", "OMPI_MCA_btl_tcp_if_include", "HEAD_IP", "NODE_RANK", "MASTER_PORT"),
    *("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HOME", "HF_HUB_ENABLE_HF_TRANSFER"),
    "HF_XET_HIGH_PERFORMANCE",
)

# Releases that can judge (tests/recipes/releases.txt). The last is that of this project's catalog.
JUDGES = (
    *("0.17.0", "0.18.0", "0.19.1", "0.20.2", "0.23.0", "0.24.0", "0.27.1", "0.28.0"),
    "0.33.0",
)
# vllm/vllm-openai:v0.28.0, …:v0.28.0-aarch64, …:vllm-x86_64-cu13-0.25.1-7a33ba9
_RELEASE_IMAGE = re.compile(
    r"(.*/)?vllm/vllm-openai:([a-z][a-z0-9_-]*-)?v?(?P<release>[0-9]+\.[0-9]+\.[0-9]+)(-[a-z0-9.-]*)?"
)


def version_of(image: str) -> tuple[str, str]:
    """Return an image's vLLM, as a recipe's ``vllm`` says it, and the release that judges it.

    That is the release whose number is nearest, the newer one of two; the newest of all for an
    image whose tag does not name one.
    """
    match = _RELEASE_IMAGE.fullmatch(image.partition("@")[0])
    if match is None:
        return UNKNOWN_VLLM, JUDGES[-1]

    def place(release: str) -> float:
        large, middle, small = number(release)
        return large * 1000 + middle + small / 10

    at = place(match["release"])
    return match["release"], min(reversed(JUDGES), key=lambda judge: abs(place(judge) - at))


@dataclass
class Translated:
    """A published recipe, taken apart, and as one of ours.

    Attributes:
        runs: Options and variables, as a recipe's ``args`` and ``env`` hold them, by the number of
            Sparks, the first of which counts; ``$`` stands for what a shell would have put in.
        lines: The line of the file, from 1, of what our keys say: ``args.NAME``, ``env.NAME``,
            ``image``, ``sparks``, ``checkpoints``.
        data: The content of our file, with ``name``.
        remarks: What whoever takes it should know, as ``FILE:LINE: …``.

    Raises:
        PlanError: It cannot be one of ours.
    """

    document: Document
    name: str
    description: str
    proven: str
    image: str
    model: str
    runs: Mapping[int, tuple[Mapping[str, Any], Mapping[str, str]]]
    lines: dict[str, int]
    revision: str | None = None
    mods: Sequence[ModFolder] = ()
    data: dict[str, Any] = field(init=False)
    recipe: Recipe = field(init=False)
    remarks: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.remarks = [*self.document.remarks]
        # Docker reads a name without a tag as the tag latest.
        tagged = re.search("[:@]", self.image.rpartition("/")[2])
        image = self.image if tagged else f"{self.image}:latest"
        vllm, judge = version_of(image)
        checkpoints = {"model": _checkpoint(self.model)}
        if self.revision:
            checkpoints["model"]["revision"] = self.revision
        (_, (options, env)), *others = self.runs.items()
        first = _settings(options, env, checkpoints)
        wrong, unjudged = self._judged(vllm, judge, **first)
        refuse([*self._problems(options, env), *wrong])
        served = options.get("served-model-name", self.model)
        self.data = {
            "name": re.sub(r"[^a-z0-9.-]+", "-", self.name.lower()).strip(".-")[:63].strip(".-"),
            "description": plain(" ".join(self.description.split())),
            "source": plain(self.document.source),
            "proven": self.proven,
            "vllm": vllm,
            "judged_by": None if vllm == judge and not unjudged else judge,
            "unjudged": unjudged,
            "hardware": ["gb10"],
            "sparks": sorted(self.runs),
            "image": {"base": image, "mods": [mod.path for mod in self.mods]}
            if self.mods
            else image,
            "checkpoints": checkpoints,
            "served_names": [*map(str, served if isinstance(served, list) else [served])],
            **first,
            "start_timeout": _START_TIMEOUT,
        }
        for count, run in others:
            own = {
                kind: {name: each for name, each in values.items() if first[kind].get(name) != each}
                for kind, values in _settings(*run, checkpoints).items()
            }
            if any(own.values()):
                self.data["by_sparks"] = {count: own}
        if options.get("runner") == "pooling":
            self.data["answers"] = _answers(self.model, options)
        named = self.lines.get("args.served-model-name", self.lines.get("checkpoints", 1))
        self.lines = {"served_names": named, **self.lines}
        self.lines["answers"] = self.lines.get("args.runner", 1)
        try:
            self.recipe = checked(self.data, self.document.path)
        except PlanError as error:
            raise PlanError(*map(self.placed, error.problems)) from None

    def placed(self, problem: str) -> str:
        """Put the line of the file into ``FILE: KEY: …``, a problem with a key of ours."""
        start = f"{self.document.path}: "
        if not problem.startswith(start):
            return problem
        text = problem.removeprefix(start)
        key = re.sub(r"^by_sparks\.[0-9]\.", "", text.partition(": ")[0])
        fitting = [each for each in self.lines if f"{key}.".startswith(f"{each}.")]
        line = self.lines[max(fitting, key=len)] if fitting else 1
        return f"{self.document.path}:{line}: {text}"

    def _at(self, key: str, sentence: str) -> str:
        """Say a sentence with the line of one of our keys."""
        return f"{self.document.path}:{self.lines.get(key, 1)}: {key}: {sentence}"

    def _judged(
        self, vllm: str, judge: str, args: Mapping[str, Any], env: Mapping[str, str]
    ) -> tuple[list[str], list[str]]:
        """Return what is wrong with the names of options and variables, and those not judged."""
        problems: list[str] = []
        unjudged: list[str] = []
        release, lacks = number(judge), f"vLLM {judge} lacks"
        has = {name for name, known in vllm_names.table().items() if known.is_in(release)}
        for key in (*(f"args.{name}" for name in args), *(f"env.{name}" for name in env)):
            kind, _, name = key.partition(".")
            off = f"disable-{name.removeprefix('enable-')}"
            if kind == "env" and not name.startswith("VLLM_"):
                continue
            if name in has:
                if args.get(name) is False and off in has:
                    # From 0.33.0 on such options are turned off by another word.
                    problems.append(self._at(key, f"found --no-{name}; expected --{off}"))
            elif why := self._elsewhere(name, vllm, release):
                unjudged.append(name)
                self.remarks.append(self._at(key, f"not judged: {lacks} it, but {why}"))
            elif kind == "env":
                self.remarks.append(self._at(key, f"{lacks} it, and passes over it"))
            else:
                expected = nearest(name, vllm_names.options(release))
                problems.append(self._at(key, f"found it, but {lacks} it; {expected}"))
        return problems, unjudged

    def _elsewhere(self, name: str, vllm: str, release: Release) -> str | None:
        """Say why the image's vLLM may have a name that the nearest release lacks."""
        words = (name.encode(), name.replace("-", "_").encode())
        texts = [file.content for mod in self.mods for file in mod.files.values()]
        if any(word in text for text in texts for word in words):
            return "a mod names it"
        if vllm == UNKNOWN_VLLM:
            return "the image's own vLLM is not known"
        # A release between two of the table may have what only one of them has.
        listed = release in vllm_names.releases() or name not in vllm_names.table()
        return None if listed else "another release has it"

    def _problems(self, options: Mapping[str, Any], env: Mapping[str, str]) -> Iterator[str]:
        if not REPOSITORY.fullmatch(self.model):
            sentence = f"found the model {self.model}; expected OWNER/NAME, as on the hub"
            yield self._at("checkpoints", sentence)
        speculative = options.get("speculative-config")
        drafter = speculative.get("model") if isinstance(speculative, dict) else None
        named = {each: options.get(each) for each in _REPOSITORIES}
        for option, value in {"speculative-config": drafter, **named}.items():
            if isinstance(value, str) and value.startswith(("/", ".", "~")):
                sentence = f"found {value}, a folder of its author's; expected OWNER/NAME on the"
                yield self._at(f"args.{option}", f"{sentence} hub")
        for option in OF_MODS:
            file = str(options.get(option, ""))
            if file.endswith((".jinja", ".py")) and "/" not in file and not self.mods:
                sentence = f"found --{option} {file}, a file that a mod brings; expected it left "
                yield self._at(f"args.{option}", f"{sentence}out, or the file's path in the image")
        for name, value in env.items():
            if name in OWN_ENVIRONMENT or (name in _OF_THE_SITE and "$" in value):
                continue
            if is_secret(name):
                sentence = "found a secret's name; expected no secret in a recipe"
                yield self._at(f"env.{name}", sentence)
            elif "$" in value:
                found = "what a shell expands" if value == "$" else shown(value)
                yield self._at(f"env.{name}", f"found {found}; expected the value itself")


def _answers(model: str, options: Mapping[str, Any]) -> str:
    """Return what a pooling model answers: scores, where a classifier or its name says so."""
    overrides = options.get("hf-overrides")
    architectures = str(overrides.get("architectures")) if isinstance(overrides, dict) else ""
    scores = "SequenceClassification" in architectures or "rerank" in model.lower()
    return "scores" if scores or options.get("convert") == "classify" else "embeddings"


def _checkpoint(repo: str) -> dict[str, Any]:
    found = {"repo": repo, "folder": repo.replace("/", "--")}
    return found | {"not_before": STALE[repo][0]} if repo in STALE else found


def _settings(
    options: Mapping[str, Any], env: Mapping[str, str], checkpoints: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return args and env as a recipe has them; what options name on the hub joins checkpoints."""

    def local(name: str, value: Any) -> Any:
        if not isinstance(value, str) or not REPOSITORY.fullmatch(value):
            return value
        known = {checkpoint["repo"]: each for each, checkpoint in checkpoints.items()}
        name = known.get(value, name)
        checkpoints.setdefault(name, _checkpoint(value))
        return f"${{{name}}}"

    args = {
        key: value
        for key, value in options.items()
        if key not in _LEFT_OUT and (key not in PARALLEL or value != 1)
    }
    args |= {key: local(name, args[key]) for key, name in _REPOSITORIES.items() if key in args}
    speculative = args.get("speculative-config")
    if isinstance(speculative, dict) and "model" in speculative:
        args["speculative-config"] = speculative | {"model": local("drafter", speculative["model"])}
    left_out = (*OWN_ENVIRONMENT, LOG_LEVEL)
    kept = {key: value for key, value in env.items() if key not in left_out and "$" not in value}
    return {"args": args, "env": kept}
