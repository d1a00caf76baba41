"""The workloads of the benchmark, by the tables of its sources, and the figures that it takes."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sparkwright.common import yaml
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.startup import COLD_START, PHASES, WARM_START

_TABLES = yaml.load(Path(__file__).with_name("workloads.yaml"))

# Metric -> its label and unit, in the order in which they are shown.
METRICS: Mapping[str, tuple[str, str]] = {
    **{name: (each["label"], each["unit"]) for name, each in _TABLES["metrics"].items()},
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
        temperature: 0 always takes the likeliest token.
        whole: an answer goes on to `output_tokens`, even if the model would end it.
        fresh: each long prompt is another one, so that no cache holds any of it.
        runs: their labels; a cold run is one request whose prompt the warm ones repeat.
        decides: its speeds decide the verdict; else they are only shown.
    """

    name: str
    prompts: Sequence[str]
    output_tokens: int
    requests: int
    concurrency: int = 1
    temperature: float = 0.0
    input_tokens: int = 0
    whole: bool = False
    fresh: bool = False
    runs: Sequence[str] = ("",)
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


# How long all of it takes, docs/benchmark.md says: an estimate by these, and the sources' speeds.
WORKLOADS: Mapping[str, Workload] = {
    each["name"]: Workload(**each) for each in _TABLES["workloads"]
}

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
