"""The report of a benchmark: lines for the terminal, and a page in Markdown."""

from collections.abc import Iterator, Sequence

from sparkwright.declared.recipe.workloads import METRICS
from sparkwright.insight.benchmark.measured import Answer
from sparkwright.insight.benchmark.verdict import (
    BELOW,
    MISSING,
    Figures,
    Verdict,
    causes,
    overall,
    verdicts,
)

_HEADINGS = ("workload", "figure", "measured", "expected", "verdict")
_SPEED = METRICS["tok_s"][0]


def number(value: float | None) -> str:
    """Return a figure for people: with at most two decimals, and commas between thousands."""
    if value is None:
        return "-"
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def report(
    answer: Answer, about: str, hardware: str, expected: Figures
) -> tuple[list[str], list[str]]:
    """Return the lines for the terminal, and those of the page, which has every figure."""
    judged = verdicts(answer.figures, expected)
    conclusion = [*_conclusion(answer, judged, hardware)]
    rows = [*_rows(answer.figures, judged)]
    shown = [cells for is_shown, *cells in rows if is_shown]
    table = [
        f"{name:<16}{figure:<28}{own:>9}{wanted:>9}  {word}".rstrip()
        for name, figure, own, wanted, word in [_HEADINGS, *shown]
    ]
    minutes = f"{(answer.ended - answer.started) / 60:.0f} minutes"
    page = [f"# {about}, measured in {minutes}", "", *(f"* {_escaped(x)}" for x in conclusion), ""]
    lines = [_HEADINGS, ("---",) * len(_HEADINGS), *(cells for _, *cells in rows)]
    page += [f"| {' | '.join(map(_escaped, cells))} |" for cells in lines]
    return [*table, *conclusion], page


def _conclusion(answer: Answer, judged: Sequence[Verdict], hardware: str) -> Iterator[str]:
    verdict, likely = overall(judged), causes(answer, judged, hardware)
    yield f"verdict: {verdict}"
    for each in likely:
        yield f"likely cause: {each.cause} (seen: {each.evidence}). Remedy: {each.remedy}."
    if verdict == BELOW and not likely:
        yield "no known cause fits what was recorded"
    if hardware == "lab":
        yield "the lab's GPU readings are simulated, and a processor computes"
    for workload in answer.workloads:
        if workload.skipped:
            yield f"{workload.name} was not measured: it {workload.skipped}"


def _rows(figures: Figures, judged: Sequence[Verdict]) -> Iterator[tuple[bool, *tuple[str, ...]]]:
    """Yield whether the terminal shows a figure, and its cells: judged ones, and all speeds."""
    by_key = {(each.workload, each.metric): each for each in judged}
    for workload in dict.fromkeys([*figures, *(each.workload for each in judged)]):
        for metric, (label, unit) in METRICS.items():
            verdict, value = by_key.get((workload, metric)), figures.get(workload, {}).get(metric)
            if verdict is None and value is None:
                continue
            pair = (value, verdict.expected if verdict else None)
            scale = 100 if unit == "%" else 1
            own, wanted = (number(None if each is None else each * scale) for each in pair)
            is_shown = verdict.standing != MISSING if verdict else label == _SPEED
            name, word = f"{label}, {unit}".rstrip(", "), verdict.word if verdict else ""
            yield is_shown, workload, name, own, wanted, word


def _escaped(text: str) -> str:
    """Return text that is no markup, whatever a Spark has written."""
    return "".join(f"\\{each}" if each in "\\`*_[]<>|#!&" else each for each in text)
