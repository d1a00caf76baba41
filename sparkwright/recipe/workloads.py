"""The workloads of the benchmark, by the tables of its sources."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from sparkwright.common.paths import HOST_FILES
from sparkwright.common.startup import COLD_START, PHASES, WARM_START

# Metric -> its label and unit, in the order in which they are shown.
METRICS: Mapping[str, tuple[str, str]] = {
    # Of a request after its first token; median over requests.
    "tok_s": ("Speed of one answer", "tok/s"),
    "tok_s_p95": ("… 95th percentile", "tok/s"),
    "tok_s_min": ("… slowest", "tok/s"),
    "tok_s_max": ("… fastest", "tok/s"),
    "total_tok_s": ("All answers together", "tok/s"),
    # Median over requests.
    "ttft_ms": ("First token", "ms"),
    "ttft_ms_p95": ("… 95th percentile", "ms"),
    # Of a long prompt that no cache holds.
    "ttft_cold_ms": ("… nothing cached", "ms"),
    # Tokens of the prompt until the first token of the answer, median over requests.
    "prefill_tok_s": ("Reading the prompt", "tok/s"),
    # Shares of the drafted tokens, and of each draft's first token: 0 to 1, shown in per cent.
    "acceptance": ("Drafts accepted", "%"),
    "acceptance_first": ("… of first tokens", "%"),
    # One, and those of its draft that were accepted; mean over steps.
    "accepted_length": ("Tokens a step", ""),
    # Failed requests.
    "errors": ("Errors", ""),
    **{phase: (label, "s") for phase, label in PHASES.items()},
}

# A prompt of this kind is made from paragraphs on the Spark, to a number of tokens.
LONG = "long"

_FILES = HOST_FILES / "benchmark"
# The most tokens of a chat template and a prompt from a file; our longest takes about 300.
_SHORT_PROMPT = 500


@dataclass(frozen=True)
class Workload:
    """Requests that are measured under one name.

    Attributes:
        description: for people.
        source: whose table it repeats.
        prompts: kinds that are sent in turn: stems of files/host/benchmark/prompts, or `LONG`.
        output_tokens: the most tokens of an answer.
        requests: of each run; if `seconds` ends it, more than fit into that time.
        concurrency: requests at once.
        temperature: 0 always takes the likeliest token.
        input_tokens: length of a long prompt.
        whole: an answer goes on to `output_tokens`, even if the model would end it.
        fresh: each long prompt is another one, so that no cache holds any of it.
        runs: their labels; a cold run is one request whose prompt the warm ones repeat.
        seconds: after which no request starts, and those in flight are answered; 0 = no limit.
        decides: its speeds decide the verdict; else they are only shown.
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
    seconds: int = 0
    decides: bool = True

    @property
    def context(self) -> int:
        """Tokens of context that its longest request takes, template included."""
        return self.input_tokens + _SHORT_PROMPT + self.output_tokens


_KINDS = ("short", "code", "json", "prose")
_MIXED, _LONG = ("mixed",), (LONG,)
_AEON, _DOCAI = "AEON-7", "docai.hu"


def _shown(
    name: str,
    description: str,
    prompts: tuple[str, ...],
    output_tokens: int,
    requests: int,
    **how: Any,
) -> Workload:
    """A section of AEON-7's benchmark with few trials: on other prompts it decides nothing."""
    return Workload(
        name, description, _AEON, prompts, output_tokens, requests, decides=False, **how
    )


# AEON-7 has all eight sections in github.com/AEON-7/Qwen3.6-NVFP4-DFlash,
# scripts/bench_full.py at 681047e: lengths, trials, temperatures and runs are those. Its prompts
# are not: ours are of the same kinds and lengths.
_AUTHORS = (
    Workload("single", "Ten prompts of mixed kinds", _AEON, _MIXED, 300, 10),
    *(
        _shown(f"ttft-{kind}", f"{length} to read", (kind,), 16, 5)
        for kind, length in (
            ("tiny", "A word"),
            ("question", "A question"),
            ("medium", "50 tokens"),
        )
    ),
    _shown("ttft-long", "465 tokens to read", _LONG, 16, 5, input_tokens=465),
    *(
        _shown(f"decode-{tokens}", f"Answers of up to {tokens} tokens", _MIXED, tokens, 3)
        for tokens in (50, 200, 500, 1000)
    ),
    _shown("greedy", "The same five prompts at temperature 0", _MIXED, 200, 5),
    _shown("sampled", "The same five prompts at temperature 0.7", _MIXED, 200, 5, temperature=0.7),
    *(
        _shown(
            f"prefill-{tokens // 1024}k",
            f"{tokens:,} tokens to read, nothing cached",
            _LONG,
            output_tokens=64,
            requests=1,
            input_tokens=tokens,
            fresh=True,
        )
        for tokens in (1024, 4096, 16_384, 32_768)
    ),
    *(
        Workload(
            f"concurrent-{number}",
            f"{number} at once, 200 tokens each",
            _AEON,
            _MIXED,
            output_tokens=200,
            # All of a run start together.
            requests=number,
            concurrency=number,
            temperature=0.7,
            whole=True,
            runs=("", "", ""),
        )
        for number in (1, 2, 4, 8, 16, 32, 64, 128)
    ),
    *(
        _shown(
            f"ttft-at-{number}",
            f"The first token of {number} at once",
            _MIXED,
            output_tokens=1,
            requests=number,
            concurrency=number,
            runs=("", "", ""),
        )
        for number in (1, 4, 16, 64)
    ),
    *(
        _shown(
            f"rag-{number}",
            f"{number} at once that read the same 1,000 tokens and answer in 50",
            _LONG,
            output_tokens=50,
            requests=number,
            concurrency=number,
            temperature=0.7,
            input_tokens=1000,
            runs=("", ""),
        )
        for number in (1, 4, 16, 64)
    ),
)
_MIXES = (
    Workload(
        "mix-short",
        "Four at once of all short kinds, 90 s",
        _DOCAI,
        _KINDS,
        output_tokens=300,
        requests=400,
        concurrency=4,
        seconds=90,
    ),
    Workload(
        "mix-typical",
        "Four at once, each fourth reads 7,500 tokens, 90 s",
        _DOCAI,
        ("short", "code", "json", LONG),
        output_tokens=300,
        requests=400,
        concurrency=4,
        input_tokens=7_500,
        seconds=90,
    ),
    # All send the same prompt, as docai.hu's seem to: 8 in 106 s leave no time to read each anew.
    *(
        Workload(
            name,
            f"{number} at once that read 108,000 tokens, {seconds} s",
            _DOCAI,
            _LONG,
            output_tokens=256,
            requests=40,
            concurrency=concurrency,
            input_tokens=108_000,
            seconds=seconds,
        )
        for name, number, concurrency, seconds in (
            ("mix-long", "Four", 4, 90),
            ("mix-long-2", "Two", 2, 180),
        )
    ),
)
_ALL = (
    *_AUTHORS,
    Workload("short", "A short question in Hungarian", _DOCAI, ("short",), 256, 4),
    Workload("code", "A function in Python", _DOCAI, ("code",), 300, 4),
    Workload("json", "A Hungarian invoice to JSON", _DOCAI, ("json",), 300, 4),
    Workload("prose", "200 words in Hungarian", _DOCAI, ("prose",), 300, 4),
    *(
        Workload(
            f"long-{name}",
            f"{tokens:,} tokens to read, cold and then again",
            _DOCAI,
            _LONG,
            output_tokens=256,
            requests=3,
            input_tokens=tokens,
            runs=("cold", "warm"),
        )
        for name, tokens in (("8k", 7_500), ("32k", 30_000))
    ),
    *_MIXES,
    Workload(
        "prefill-decode",
        "8,192 tokens to read, 256 to write, nothing cached",
        "NVIDIA's local-ai-inference-recipes",
        _LONG,
        output_tokens=256,
        requests=5,
        input_tokens=8_192,
        whole=True,
        fresh=True,
    ),
)
# How long all of it takes, docs/benchmark.md says: an estimate by these, and the sources' speeds.
WORKLOADS: Mapping[str, Workload] = {workload.name: workload for workload in _ALL}

# The names of workloads that a recipe may expect figures of; a start's come from the journal.
EXPECTED = (*WORKLOADS, COLD_START, WARM_START)


def order(workload: Workload) -> dict[str, object]:
    """Return the workload as JSON takes it, for files/host/benchmark/measure.py."""
    texts = {kind: _lines(f"prompts/{kind}.txt") for kind in workload.prompts if kind != LONG}
    return {**asdict(workload), "context": workload.context, "texts": texts}


def passages() -> list[str]:
    """Return the paragraphs that long prompts are made of."""
    return _lines("passages.txt")


def _lines(name: str) -> list[str]:
    return [line for line in (_FILES / name).read_text("utf-8").splitlines() if line]
