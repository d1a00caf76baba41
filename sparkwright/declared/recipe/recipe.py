"""A recipe: one thing that can be served, and with what."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from sparkwright.common.errors import PlanError
from sparkwright.common.schema import Model, Text, satisfying
from sparkwright.declared.recipe import values
from sparkwright.declared.recipe.options import Options
from sparkwright.declared.recipe.vllm_names import number

# Seconds before the end of vLLM's own drain at which a stop cuts off requests in flight.
BREAK_OFF = 2

# Where a recipe leaves it to vLLM: the context of Qwen's models, and vLLM's larger default for the
# tokens of a step (EngineArgs.get_batch_defaults).
_CONTEXT, _BATCH = 262_144, 8192
_DAY = 86_400
# WARNING leaves out what a serving engine logs for ever: a line for each request, and every ten
# seconds its speeds, which /metrics has as well. vLLM's own level WARNING would hide the phases of
# a start from the run that waits for it, and from the doctor half of the lines that it knows.
_LEVELS: dict[str, dict[str, dict[str, Any]]] = {
    "DEBUG": {"env": {values.LOG_LEVEL: "DEBUG"}},
    "INFO": {},
    "WARNING": {
        "args": {"disable-uvicorn-access-log": True},
        "env": {"VLLM_LOG_STATS_INTERVAL": "3600"},
    },
}
_UNTIL = "seconds until it must answer, a whole number from 1 to 86400, a day"

# The first release that caches prefixes of models with linear attention by default, in
# engine/arg_utils.py and config/model.py: off in 0.17.0 to 0.27.0, on in 0.28.0 to 0.33.0.
_PREFIX_CACHING = (0, 28)

# Requests of a step that get a graph: up to 16 as by vLLM itself; above, padding adds less than a
# half. vLLM's own go by 8, 30 graphs at 64 requests where these are 18, each 0.27 s (an H100).
_REQUESTS = sorted({1 << power for power in range(10)} | {3 << power for power in range(3, 8)})
# Tokens of the largest graph that vLLM makes by itself, but for datacenter Blackwell (config/
# vllm.py, 0.17.0 to 0.33.0), and the options by which a recipe has a say in them.
LARGEST_GRAPH = 512
_SAY = ("max-cudagraph-capture-size", "cudagraph-capture-sizes", "performance-mode")

# What a published recipe's ``vllm`` says whose image has a name that moves.
UNKNOWN_VLLM = "its image's own"


class Checkpoint(Model):
    """A repository on the hub, and the folder below the root that holds it on a Spark."""

    repo: values.Repository = Field(description="OWNER/NAME, as on the hub")
    revision: values.Revision = Field(default="main", description="a branch, tag or commit")
    folder: values.Folder = Field(description="one folder name, such as qwen36-nvfp4")
    not_before: Annotated[date, Field(strict=False)] | None = Field(
        default=None, description="a date such as 2026-04-19; an older commit is refused"
    )
    files: list[values.FilePattern] | None = Field(
        default=None,
        min_length=1,
        max_length=64,
        description='a list of patterns of the files to fetch, such as ["*.json", "model*"]',
    )


# What an engine is asked for: the key `answers` of a recipe.
Answers = Literal["chat", "embeddings", "scores"]

Figure = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Figures = Annotated[
    dict[str, dict[str, Figure]],
    Field(description="a mapping of workloads to figures, such as single: {tok_s: 83.9}"),
]


# A terminal would follow other characters: they may be a stranger's.
Prose = Annotated[str, satisfying(lambda text: text.replace("\n", "").isprintable())]


class EngineSettings(Model):
    """The command line and environment of vLLM."""

    args: dict[values.Option, values.Argument] = Field(
        default_factory=dict, description="a mapping of vLLM's options, without dashes"
    )
    env: dict[values.Variable, Text] = Field(
        default_factory=dict, description="text in quotes (variables are strings)"
    )

    @property
    def options(self) -> Options:
        """The options in ``args``, as vLLM reads them."""
        return Options.model_validate(self.args)


class BySparks(EngineSettings):
    """The values that differ with one number of Sparks; each replaces the recipe's own."""

    start_timeout: int | None = Field(default=None, ge=1, le=_DAY, description=_UNTIL)
    expected: Figures | None = None


def _text_keys(value: object) -> object:
    """YAML reads a count as a number; messages name keys."""
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else value


class Recipe(EngineSettings):
    """One thing that can be served, and with what."""

    name: str
    description: Prose = Field(description="a sentence on what it serves, in printable text")
    source: Prose = Field(description="where its settings come from, in printable text")
    proven: Prose = Field(description="who has seen it run, and where, in printable text")
    vllm: Text = Field(min_length=1, description="the vLLM version in the image, such as '0.33.0'")
    judged_by: values.Release | None = Field(
        default=None, description="the nearest release of vLLM, such as 0.20.2"
    )
    unjudged: list[Text] = Field(
        default_factory=list,
        description="a list of options and variables that only the image's own vLLM has",
    )
    answers: Answers = Field(
        default="chat", description="chat, embeddings, or scores (of documents, for a query)"
    )
    hardware: list[str] = Field(
        min_length=1, description="a list of hardware classes, such as [gb10]"
    )
    sparks: list[int] = Field(
        min_length=1, description="a list of Spark counts, such as [1] or [1, 2, 4]"
    )
    image: values.ImageOrBuild = Field(
        description="an image with a tag or digest, such as example.org/name:1.0, or {build: …}, "
        "or {base: …, mods: […]}"
    )
    checkpoints: dict[str, Checkpoint] = Field(
        description="a mapping with 'model' and, by names of your own, what else the engine loads"
    )
    served_names: list[Text] = Field(
        min_length=1, description="a list of the names that clients ask for"
    )
    # Long steps read many prompts faster; short ones let a prompt that comes between begin sooner.
    favors: Literal["first-token", "throughput"] | None = Field(
        default=None, description="first-token or throughput: what the tokens of a step are for"
    )
    by_sparks: Annotated[dict[str, BySparks], BeforeValidator(_text_keys)] = Field(
        default_factory=dict,
        description="a mapping of Spark counts to what differs, such as 2: {args: {…}, env: {…}}",
    )
    start_timeout: int = Field(ge=1, le=_DAY, description=_UNTIL)
    expected: Figures = Field(default_factory=dict)

    @property
    def build(self) -> values.ImageBuild | values.ImageMods | None:
        """How the Spark makes the image; None: it is pulled as it is."""
        return None if isinstance(self.image, str) else self.image

    @property
    def base_image(self) -> str:
        """The image that a registry has: the recipe's own, or the one that it is built on."""
        return self.image if isinstance(self.image, str) else self.image.base

    @property
    def judge(self) -> str:
        """The release of vLLM by which the recipe is checked."""
        return self.judged_by or self.vllm

    @property
    def release(self) -> tuple[int, ...] | None:
        """The numbers of `judge`, such as (0, 28, 0); None where it names no release.

        A judge of an image whose vLLM is unknown is an estimate, by which nothing is refused.
        """
        known = self.vllm != UNKNOWN_VLLM and values.RELEASE.fullmatch(self.judge)
        return number(self.judge) if known else None

    @property
    def caches_prefixes(self) -> bool:
        """Tell whether prompts that begin alike share blocks; an unknown release has it on."""
        said = self.options.enable_prefix_caching
        return (self.release or _PREFIX_CACHING) >= _PREFIX_CACHING if said is None else said

    @property
    def capture_sizes(self) -> list[int]:
        """Tokens of the steps that get a CUDA graph; empty: vLLM chooses, or there are none.

        Where the recipe has no say in it, they are made of its requests at once, each with its
        drafts. vLLM makes them for twice as many tokens, for steps that read short prompts beside;
        and before 0.33 not for all requests at once: 4 with 2 drafts ran in pieces, padded to 6.
        A prompt to embed or to score is such a step, and may be of any length.
        """
        options, width = self.options, 1 + self.options.drafted
        said = {name for name in (options.compilation_config or {}) if "_size" in name}
        if said or any(name in self.args for name in _SAY) or options.graphs == "none":
            return options.cudagraph_capture_sizes
        if self.answers != "chat" or not (self.release and options.max_num_seqs):
            return []
        most = options.max_num_seqs
        tokens = [width * each for each in (*(few for few in _REQUESTS if few < most), most)]
        largest = min(LARGEST_GRAPH, options.max_num_batched_tokens or LARGEST_GRAPH)
        return [size for size in tokens if size <= largest]

    @property
    def models(self) -> dict[str, str]:
        """The repository behind each name that clients can ask for, adapters' included."""
        adapters = {
            adapter.name: self.checkpoints[adapter.checkpoint].repo
            for adapter in self.options.lora_modules
        }
        return dict.fromkeys(self.served_names, self.checkpoints["model"].repo) | adapters

    @property
    def whole_models(self) -> dict[str, Checkpoint]:
        """The checkpoints that are models of their own, with a config.json: not adapters."""
        adapters = {adapter.checkpoint for adapter in self.options.lora_modules}
        return {name: each for name, each in self.checkpoints.items() if name not in adapters}

    @property
    def longest_step(self) -> float:
        """Seconds that one step of a sound engine may take: it reads max-num-batched-tokens.

        The more context is before these, the longer. On one Spark 1,000 tokens took Qwen3.6-35B in
        FP8 0.15 s, and 0.94 s at 262,144 tokens of context; Qwen3.8-27B, a dense model, 0.93 s
        within prompts of 40,000 (github.com/0xBakeer/inference-atlas, by times to first tokens).
        Taken here are 1 s, and 3.9 s at that context.
        """
        options = self.options
        context = max(options.max_model_len or 0, 0) or _CONTEXT
        return (options.max_num_batched_tokens or _BATCH) / 1000 * (1 + 11e-6 * context)

    @property
    def stop_timeout(self) -> int:
        """Seconds that a stop leaves to requests in flight; then the engine is killed.

        That is shortly before vLLM would end them: it would end a stream with `[DONE]`, as if it
        were complete (vLLM 0.26, measured). A connection that breaks off shows that it is not.
        """
        return max(0, self.options.shutdown_timeout - BREAK_OFF)

    def checked_sparks(self, count: int | None, option: str = "--sparks") -> int:
        """Return a number of Sparks, by an option, that the recipe is for; of None, the least."""
        if count is not None and count not in self.sparks:
            supported = " or ".join(map(str, self.sparks))
            raise PlanError(f"{option}: found {count}; expected {supported} ({self.name})")
        return min(self.sparks) if count is None else count

    def tensor_parallel(self, sparks: int) -> int:
        """Return how many Sparks share each layer: what stages and copies leave of them.

        To be asked of a recipe as it is for that number of Sparks, of which each has one GPU.
        """
        return sparks // (self.options.pipeline_parallel_size * self.options.data_parallel_size)

    def for_sparks(self, count: int) -> Recipe:
        """Return the recipe with the values of ``by_sparks`` for a number, and no ``by_sparks``."""
        own = self.by_sparks.get(str(count), BySparks())
        changes = {
            "args": self.args | own.args,
            "env": self.env | own.env,
            "start_timeout": own.start_timeout or self.start_timeout,
            "expected": self.expected if own.expected is None else own.expected,
            "by_sparks": {},
        }
        return self.model_copy(update=changes)

    def at_level(self, level: str) -> Recipe:
        """Return the recipe with an engine that logs as `log_level` of the group data says."""
        changes = {kind: getattr(self, kind) | added for kind, added in _LEVELS[level].items()}
        return self.model_copy(update=changes)

    def from_domains(self, domains: Sequence[str]) -> Recipe:
        """Return the recipe with an engine that fetches media from these hosts only."""
        if not domains:
            return self
        return self.model_copy(update={"args": self.args | {values.DOMAINS: list(domains)}})
