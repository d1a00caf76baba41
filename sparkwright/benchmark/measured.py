"""The answer of a Spark to a benchmark, checked before it is used.

An attacker who controls a Spark can write anything into it. So sizes are bounded, numbers are
finite, and what was measured has to be what the benchmark's orders name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from sparkwright.benchmark.figures import Result
from sparkwright.common.host_output import HostAnswer
from sparkwright.common.terminal import plain

# The keys of the orders that the answer repeats.
IDENTITY = ("replica", "recipe", "release", "vllm", "model", "hardware", "sparks")
# 2**53: beyond it, a float no longer tells whole numbers apart.
_MOST = 1 << 53
# Seconds since the epoch: the year 2100.
_LAST = 4_102_444_800


def _rounded(value: float) -> float:
    # A smaller value is noise, and its inverse would be huge.
    return round(value, 6)


def _cut(most: int) -> AfterValidator:
    return AfterValidator(lambda text: plain(text, most))


_Number = Annotated[float, Field(ge=-_MOST, le=_MOST), AfterValidator(_rounded)]
_Amount = Annotated[float, Field(ge=0, le=_MOST), AfterValidator(_rounded)]
_Count = Annotated[int, Field(ge=-_MOST, le=_MOST)]
_Tokens = Annotated[int, Field(ge=0, le=_MOST)]
_Time = Annotated[float, Field(ge=0, le=_LAST)]
_Word = Annotated[str, _cut(80)]
_Sentence = Annotated[str, _cut(1000)]


class Run(HostAnswer):
    """One run of a workload: figures of each request that was answered, and counters."""

    label: _Word
    concurrency: _Tokens
    started: _Number
    ended: _Number
    input_tokens: list[_Tokens]
    output_tokens: list[_Tokens]
    ttft_ms: list[_Amount]
    tpot_ms: list[_Amount]
    errors: list[_Sentence]
    drafted: _Count
    accepted: _Count
    drafts: _Count
    preemptions: _Count
    cached_tokens: _Count
    queried_tokens: _Count
    accepted_at: list[_Count] = Field(default_factory=list, max_length=1000)

    @model_validator(mode="after")
    def _whole(self) -> Run:
        counts = {len(each) for each in (self.input_tokens, self.output_tokens, self.ttft_ms)}
        if len(counts) != 1:
            raise ValueError("a figure of each request that was answered")
        return self


class Measured(HostAnswer):
    """A workload, or why it was skipped."""

    name: _Word
    skipped: _Sentence | None = None
    runs: list[Run] = Field(max_length=100)


class Others(HostAnswer):
    """Requests of other clients before the benchmark began."""

    running: _Tokens
    waiting: _Tokens


class Log(HostAnswer):
    """The findings in the engine's log and in a trial answer.

    Attributes:
        network: NCCL's transport, such as NET/IB.
        thinking: the answer held reasoning.
    """

    network: _Word | None = None
    thinking: bool = False


class Answer(HostAnswer):
    """A whole benchmark.

    Attributes:
        started, ended: seconds since the epoch.
        start: seconds on any clock, and line, of the engine's start.
        gpu: seconds since the start, and clock (MHz), power (W) and temperature (°C) of the GPU.
    """

    replica: _Word
    recipe: _Word
    release: _Word
    vllm: _Word
    model: _Sentence
    hardware: _Word
    sparks: _Tokens
    started: _Time
    ended: _Time
    before: Others
    start: list[tuple[_Number, _Sentence]] = Field(default_factory=list)
    workloads: list[Measured] = Field(max_length=200)
    gpu: list[tuple[_Number, _Number | None, _Number | None, _Number | None]]
    log: Log | None = None
    given_up: _Sentence = ""


def check_answer(answer: Answer, orders: Mapping[str, Any], workloads: Collection[str]) -> str:
    """Return why an answer does not match its orders; "" where it does.

    Args:
        answer: what the Spark wrote.
        orders: what it had to measure.
        workloads: the names of those in the orders.
    """
    for key in IDENTITY:
        if getattr(answer, key) != orders[key]:
            return f"{key}: found {getattr(answer, key)!r}; expected {orders[key]!r}"
    names = [each.name for each in answer.workloads]
    if len(set(names)) < len(names) or not set(names) <= set(workloads):
        return f"workloads: found {plain(', '.join(names), 200)}; expected those that were ordered"
    return ""


def result_of(answer: Answer) -> Result:
    """Return an answer as the result from which figures, verdicts and page are made."""
    return {"format": 1, **answer.model_dump()}
