"""The rate of a transfer, and the processors that it keeps busy meanwhile."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROUNDS = 3
# Of the time of all cores of the machine: from here on they, and nothing else, are the limit.
BUSY = 0.9
# Of the slowest of what limits a way.
AIM = 0.8


@dataclass(frozen=True)
class Run:
    """One run of one way.

    Attributes:
        seconds: that it took.
        busy: the part of all cores' time that they worked, for whomever: 0 to 1.
        cpu: who -> seconds of processor time.
    """

    seconds: float
    busy: float
    cpu: Mapping[str, float]


Rounds = dict[str, list[Run]]


def machine() -> tuple[float, float]:
    """Return the ticks that this machine's cores have had, and those in which they worked."""
    return ticks(Path("/proc/stat").read_text())


def ticks(stat: str) -> tuple[float, float]:
    """Read the first line of /proc/stat as `machine` returns it."""
    every = [float(word) for word in stat.split("\n")[0].split()[1:9]]
    return sum(every), sum(every) - every[3] - every[4]


def busy(before: tuple[float, float], after: tuple[float, float]) -> float:
    """Return the part of the ticks between two answers of `machine` in which cores worked."""
    return (after[1] - before[1]) / max(after[0] - before[0], 1)


def in_turn(ways: Mapping[str, Callable[[], Run]]) -> Rounds:
    """Run every way ROUNDS times: what else the machine does changes from round to round."""
    rounds = [{name: way() for name, way in ways.items()} for _ in range(ROUNDS)]
    return {name: [runs[name] for runs in rounds] for name in ways}


def table(title: str, megabytes: float, rounds: Rounds) -> None:
    """Print the rate of each way, what it costs, and whether the cores were its limit."""
    print(f"\n{title} (median of {ROUNDS}, in turn)")
    for name, runs in rounds.items():
        rates = [megabytes / run.seconds for run in runs]
        costs = ", ".join(
            f"{who} {median([run.cpu[who] for run in runs]) / megabytes * 1e3:.1f}"
            for who in runs[0].cpu
        )
        cores = median([run.busy for run in runs])
        limit = ": they are the limit" if cores >= BUSY else ""
        spread = f"({min(rates):.0f} to {max(rates):.0f})"
        print(
            f"  {name:<32} {median(rates):5.0f} MB/s {spread:<14} "
            f"CPU s/GB: {costs}; cores {cores:.0%} busy{limit}"
        )


def part(rounds: Rounds, ours: str, *limits: str) -> float:
    """Return how much of the slowest limit a way reaches: the median of all rounds."""
    return median(
        [
            max(rounds[limit][number].seconds for limit in limits) / run.seconds
            for number, run in enumerate(rounds[ours])
        ]
    )


def judge(rounds: Rounds, ours: str, *limits: str) -> None:
    """Print how much of the slowest limit a way reaches, and what it should reach."""
    print(f"  {ours}: {part(rounds, ours, *limits):.0%} of the slowest limit (aim: {AIM:.0%})")
