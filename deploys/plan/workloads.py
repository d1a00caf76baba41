"""What the benchmark measures, by the tables of the seeds."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from deploys.plan.errors import PlanError
from deploys.plan.schema import nearest

METRICS: Mapping[str, str] = {
    "tok_s": "tokens a second of a request after its first token, median",
    "tok_s_p95": "the same, 95th percentile",
    "tok_s_min": "the same, slowest request",
    "tok_s_max": "the same, fastest request",
    "total_tok_s": "tokens a second, all requests together",
    "ttft_ms": "milliseconds to the first token, median",
    "ttft_ms_p95": "the same, 95th percentile",
    "ttft_cold_ms": "milliseconds to the first token of a long prompt that no cache holds",
    "prefill_tok_s": "tokens of the prompt a second until the first token, median",
    "acceptance": "accepted share of the drafted tokens, 0 to 1",
    "errors": "failed requests",
}

# A prompt of this kind is made from paragraphs on the Spark, to a number of tokens.
LONG = "long"

_FILES = Path(__file__).parents[2] / "files" / "benchmark"
# Tokens that a chat template and a prompt of a file may take; the longest of ours has about 300.
_SHORT_PROMPT = 500


@dataclass(frozen=True)
class Workload:
    """Requests that are measured under one name.

    Attributes:
        description: for people.
        source: whose table it repeats.
        prompts: kinds that are asked in turn: stems of files/benchmark/prompts, or `LONG`.
        output_tokens: the most that is answered.
        requests: of each run.
        concurrency: requests at once.
        temperature: 0 always takes the likeliest token.
        input_tokens: length of a long prompt.
        whole: an answer goes on to `output_tokens`, whatever the model says.
        fresh: each long prompt is another one, so that no cache holds any of it.
        runs: their labels; a cold run is one request whose prompt the warm ones repeat.
    """

    name: str
    description: str
    source: str
    prompts: tuple[str, ...]
    output_tokens: int
    requests: int
    concurrency: int = 1
    temperature: float = 0.0
    input_tokens: int = 0
    whole: bool = False
    fresh: bool = False
    runs: tuple[str, ...] = ("",)

    @property
    def context(self) -> int:
        """Tokens of context that its longest request takes, template included."""
        return self.input_tokens + _SHORT_PROMPT + self.output_tokens


_KINDS = ("short", "code", "json", "prose")
_SEED = "seed 004"

# Seed 001 tells concurrency, tokens out, temperature and three runs, but not how many requests a
# run has: here as many as are at once, so that all of a run start together. Seed 004 tells lengths
# and seconds (90) of its mixes; here as many requests as it got done in them.
_ALL = (
    Workload("single", "Ten prompts of mixed kinds", "seed 001", ("mixed",), 300, 10),
    *(
        Workload(
            name=f"concurrent-{number}",
            description=f"{number} at once, 200 tokens each",
            source="seed 001",
            prompts=("mixed",),
            output_tokens=200,
            requests=number,
            concurrency=number,
            temperature=0.7,
            whole=True,
            runs=("", "", ""),
        )
        for number in (1, 4, 16, 64, 128)
    ),
    Workload("short", "A short question in Hungarian", _SEED, ("short",), 256, 4),
    Workload("code", "A function in Python", _SEED, ("code",), 300, 4),
    Workload("json", "A Hungarian invoice to JSON", _SEED, ("json",), 300, 4),
    Workload("prose", "200 words in Hungarian", _SEED, ("prose",), 300, 4),
    *(
        Workload(
            name=f"long-{name}",
            description=f"{tokens:,} tokens to read, cold and then again",
            source=_SEED,
            prompts=(LONG,),
            output_tokens=256,
            requests=3,
            input_tokens=tokens,
            runs=("cold", "warm"),
        )
        for name, tokens in (("8k", 7_500), ("32k", 30_000))
    ),
    Workload("mix-short", "Four at once of all short kinds", _SEED, _KINDS, 300, 20, 4),
    Workload(
        name="mix-typical",
        description="Four at once, each fourth reads 7,500 tokens",
        source=_SEED,
        prompts=("short", "code", "json", LONG),
        output_tokens=300,
        requests=20,
        concurrency=4,
        input_tokens=7_500,
    ),
    # All of them ask the same, as the seed's seem to have: 8 in 106 s leave no time to read each.
    Workload(
        name="mix-long",
        description="Four at once that read 108,000 tokens",
        source=_SEED,
        prompts=(LONG,),
        output_tokens=256,
        requests=8,
        concurrency=4,
        input_tokens=108_000,
    ),
    Workload(
        name="prefill-decode",
        description="8,192 tokens to read, 256 to write, nothing cached",
        source="NVIDIA's local-ai-inference-recipes",
        prompts=(LONG,),
        output_tokens=256,
        requests=5,
        input_tokens=8_192,
        whole=True,
        fresh=True,
    ),
)
# The whole set writes about 150,000 tokens and reads about 1.1 million at most: 15 to 20 minutes
# at the speeds of seed 001, 30 to 40 at those of seed 004. An estimate, no measurement.
WORKLOADS: Mapping[str, Workload] = {workload.name: workload for workload in _ALL}


def choose(names: str | None) -> list[Workload]:
    """Return the workloads that a person asked for, each once.

    Args:
        names: with commas between them; None for all.

    Raises:
        PlanError: there is none of a name.
    """
    if names is None:
        return list(WORKLOADS.values())
    asked = list(dict.fromkeys(name.strip() for name in str(names).split(",")))
    if unknown := [name for name in asked if name not in WORKLOADS]:
        raise PlanError(
            *(
                f"--data workloads: found {name!r}; expected {nearest(name, WORKLOADS)}"
                for name in unknown
            )
        )
    return [WORKLOADS[name] for name in asked]


def order(workload: Workload) -> dict[str, object]:
    """Return what files/benchmark/measure.py is told of a workload, as JSON takes it."""
    texts = {kind: _lines(f"prompts/{kind}.txt") for kind in workload.prompts if kind != LONG}
    return {**asdict(workload), "context": workload.context, "texts": texts}


def passages() -> list[str]:
    """Return the paragraphs that long prompts are made of."""
    return _lines("passages.txt")


def _lines(name: str) -> list[str]:
    return [line for line in (_FILES / name).read_text().splitlines() if line]
