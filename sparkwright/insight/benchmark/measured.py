"""The answer of a Spark to a benchmark, checked before it is used.

An attacker who controls a Spark can write anything into it. So sizes are bounded, numbers are
finite, and what was measured has to be what the benchmark's orders name.
"""

from collections.abc import Collection
from hashlib import sha256
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from sparkwright.common.part import Bounded, Part
from sparkwright.common.startup import Start
from sparkwright.common.terminal import plain
from sparkwright.declared.recipe.workloads import METRICS

# In the project that pyinfra runs in.
RESULTS = Path("benchmarks")
# 2**53: beyond it, a float no longer tells whole numbers apart.
_MOST = 1 << 53
# Seconds since the epoch: the year 2100.
_LAST = 4_102_444_800


def _cut(most: int) -> AfterValidator:
    return AfterValidator(lambda text: plain(text, most))


# A smaller value than a millionth is noise, and its inverse would be huge.
_Amount = Annotated[float, Field(ge=0, le=_MOST), AfterValidator(lambda value: round(value, 6))]
_Count = Annotated[int, Field(ge=0, le=_MOST)]
_Time = Annotated[float, Field(ge=0, le=_LAST)]
_Word = Annotated[str, _cut(80)]
_Sentence = Annotated[str, _cut(1000)]


class Measured(Bounded, extra="ignore"):
    """A workload, or why it was skipped; `gpu` has the medians of MHz, W and °C."""

    name: _Word
    skipped: _Sentence | None = None
    figures: dict[_Word, _Amount] = Field(default_factory=dict, max_length=100)
    requests: _Count = 0
    output_tokens: _Count = 0
    errors: list[_Sentence] = Field(default_factory=list)
    preemptions: _Count = 0
    gpu: tuple[_Amount | None, _Amount | None, _Amount | None] = (None, None, None)


class Answer(Bounded, extra="ignore"):
    """A whole benchmark.

    Attributes:
        orders: the hash of its manifest.
        start: of the engine; None where it is not known.
        others: requests of other clients before the benchmark began.
    """

    orders: _Word
    started: _Time
    ended: _Time
    start: Start | None = None
    others: _Count
    workloads: list[Measured] = Field(max_length=200)
    given_up: _Sentence = ""

    @property
    def figures(self) -> dict[str, dict[str, float]]:
        """Workload -> metric -> figure; the phases of the engine's start are a workload too."""
        return (self.start.figures if self.start else {}) | {
            each.name: {key: value for key, value in each.figures.items() if key in METRICS}
            | {"errors": len(each.errors)}
            for each in self.workloads
            if not each.skipped
        }


class BenchmarkResult(Part):
    """The result of the last benchmark; None while there is none."""

    part: ClassVar = "status.benchmark"

    answer: Answer | None


def check_answer(answer: Answer, orders: str, workloads: Collection[str]) -> str:
    """Return why an answer does not match its orders, the manifest; "" where it does."""
    if answer.orders != sha256(orders.encode()).hexdigest():
        return "it is of another manifest"
    names = [each.name for each in answer.workloads]
    if len(set(names)) < len(names) or not set(names) <= set(workloads):
        return f"workloads: found {plain(', '.join(names), 200)}; expected those that were ordered"
    return ""
