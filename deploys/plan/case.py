"""The case of a slow Spark: a benchmark's result and the verdicts on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deploys.plan.figures import Result
from deploys.plan.verdict import BELOW, Verdict, overall


@dataclass(frozen=True)
class Case:
    """The case that a cause is held against."""

    result: Result
    verdicts: Sequence[Verdict]

    @property
    def runs(self) -> list[Result]:
        """All runs of all workloads."""
        return [run for workload in self.result["workloads"] for run in workload["runs"]]

    @property
    def slow(self) -> bool:
        """Tell whether a deciding figure is below."""
        return overall(self.verdicts) == BELOW

    def below(self, *metrics: str) -> list[Verdict]:
        """Return the verdicts on these metrics that are below."""
        return [v for v in self.verdicts if v.metric in metrics and v.standing == BELOW]

    def total(self, key: str) -> int:
        """Return the sum of a counter over all runs."""
        return sum(run[key] for run in self.runs)

    def log(self, key: str) -> Any:
        """Return what the engine's log told, None without."""
        return (self.result.get("log") or {}).get(key)

    def loaded(self, column: int) -> list[float]:
        """Return the GPU's readings while requests ran.

        Args:
            column: 1 = clock in MHz, 2 = power in W, 3 = temperature in degrees Celsius.
        """
        return [
            sample[column]
            for sample in self.result["gpu"]
            if sample[column] is not None
            and any(run["started"] <= sample[0] <= run["ended"] for run in self.runs)
        ]
