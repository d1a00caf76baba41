"""The workloads of the benchmark, by the tables of its sources, and the figures that it takes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial

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
    # Tokens of a prompt, by the time until the first token of its answer.
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

_FILES = HOST_FILES / "insight" / "benchmark"
# The most tokens of a chat template and a prompt from a file; our longest takes about 300.
_SHORT_PROMPT = 500


@dataclass(frozen=True)
class Workload:
    """Requests that are measured under one name.

    Attributes:
        prompts: kinds that are sent in turn: stems of the files in `_FILES`, or `LONG`.
        output_tokens: the most tokens of an answer.
        requests: of each run.
        concurrency: requests at once.
        temperature: 0 always takes the likeliest token.
        input_tokens: length of a long prompt.
        whole: an answer goes on to `output_tokens`, even if the model would end it.
        fresh: each long prompt is another one, so that no cache holds any of it.
        runs: their labels; a cold run is one request whose prompt the warm ones repeat.
        decides: its speeds decide the verdict; else they are only shown.
    """

    name: str
    prompts: tuple[str, ...]
    output_tokens: int
    requests: int
    concurrency: int = 1
    temperature: float = 0.0
    input_tokens: int = 0
    whole: bool = False
    fresh: bool = False
    runs: tuple[str, ...] = ("",)
    decides: bool = True

    @property
    def context(self) -> int:
        """Tokens of context that its longest request takes, template included."""
        return self.input_tokens + _SHORT_PROMPT + self.output_tokens

    @property
    def asked(self) -> list[str | None]:
        """The prompts in the order in which they are asked; None for each long one."""
        texts = {kind: _lines(f"prompts/{kind}.txt") for kind in self.prompts if kind != LONG}
        found: list[str | None] = []
        for number in range(self.requests):
            turn, place = divmod(number, len(self.prompts))
            known = texts.get(self.prompts[place])
            found.append(known[turn % len(known)] if known else None)
        return found


# A section of AEON-7's benchmark with few trials: on other prompts it decides nothing.
_few = partial(Workload, decides=False)
_MIXED, _LONG, _TWICE, _THRICE = ("mixed",), (LONG,), ("", ""), ("", "", "")
_AT_ONCE = (1, 2, 4, 8, 16, 32, 64, 128)
_ALL = (
    # AEON-7's eight sections: github.com/AEON-7/Qwen3.6-NVFP4-DFlash, scripts/bench_full.py at
    # 681047e, with its lengths, trials, temperatures and runs; the prompts are ours, of the same
    # kinds.
    Workload("single", _MIXED, 300, 10),
    *(_few(f"ttft-{kind}", (kind,), 16, 5) for kind in ("tiny", "question", "medium")),
    _few("ttft-long", _LONG, 16, 5, input_tokens=465),
    *(_few(f"decode-{tokens}", _MIXED, tokens, 3) for tokens in (50, 200, 500, 1000)),
    _few("greedy", _MIXED, 200, 5),
    _few("sampled", _MIXED, 200, 5, temperature=0.7),
    *(
        _few(f"prefill-{k}k", _LONG, 64, 1, input_tokens=1024 * k, fresh=True)
        for k in (1, 4, 16, 32)
    ),
    *(Workload(f"concurrent-{n}", _MIXED, 200, n, n, 0.7, 0, True, runs=_THRICE) for n in _AT_ONCE),
    *(_few(f"ttft-at-{n}", _MIXED, 1, n, n, runs=_THRICE) for n in (1, 4, 16, 64)),
    *(_few(f"rag-{n}", _LONG, 50, n, n, 0.7, 1000, runs=_TWICE) for n in (1, 4, 16, 64)),
    # docai.hu's. Its mixes ran for 90 s, the last one for 180: as many requests as it got done. In
    # the long ones all send the same prompt: 8 in 106 s leave no time to read each anew.
    Workload("short", ("short",), 256, 4),
    *(Workload(kind, (kind,), 300, 4) for kind in ("code", "json", "prose")),
    Workload("long-8k", _LONG, 256, 3, input_tokens=7_500, runs=("cold", "warm")),
    Workload("long-32k", _LONG, 256, 3, input_tokens=30_000, runs=("cold", "warm")),
    Workload("mix-short", ("short", "code", "json", "prose"), 300, 20, concurrency=4),
    Workload("mix-typical", ("short", "code", "json", LONG), 300, 20, 4, input_tokens=7_500),
    Workload("mix-long", _LONG, 256, 8, concurrency=4, input_tokens=108_000),
    Workload("mix-long-2", _LONG, 256, 6, concurrency=2, input_tokens=108_000),
    # NVIDIA's local-ai-inference-recipes.
    Workload("prefill-decode", _LONG, 256, 5, input_tokens=8_192, whole=True, fresh=True),
)
# How long all of it takes, docs/benchmark.md says: an estimate by these, and the sources' speeds.
WORKLOADS: Mapping[str, Workload] = {each.name: each for each in _ALL}

# The names of workloads that a recipe may expect figures of; a start's come from the journal.
EXPECTED = (*WORKLOADS, COLD_START, WARM_START)


def order(workload: Workload) -> dict[str, object]:
    """Return the workload as JSON takes it, for files/host/insight/benchmark/measure.py."""
    return {**asdict(workload), "context": workload.context, "asked": workload.asked}


def passages() -> list[str]:
    """Return the paragraphs that long prompts are made of."""
    return _lines("passages.txt")


def _lines(name: str) -> list[str]:
    return [line for line in (_FILES / name).read_text("utf-8").splitlines() if line]
