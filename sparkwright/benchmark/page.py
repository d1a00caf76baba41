"""The report of a benchmark: lines for the terminal, and one HTML file that needs nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup

from sparkwright.benchmark import plots
from sparkwright.benchmark.causes import causes
from sparkwright.benchmark.figures import Figures, Result, accepted_by_place, figures
from sparkwright.benchmark.verdict import BELOW, MISSING, NOTHING, Verdict, overall, verdicts
from sparkwright.causes.cause import Diagnosis
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.render import render
from sparkwright.recipe.workloads import METRICS

_TEMPLATE = HOST_FILES / "benchmark" / "page.html.j2"

_SHARES = ("acceptance", "acceptance_first")


@dataclass(frozen=True)
class _Line:
    """A plot of one metric over workloads that differ in a number.

    Attributes:
        names: Their names, with the number as a group.
        x: What the number is.
    """

    title: str
    metric: str
    unit: str
    names: re.Pattern[str]
    x: str


def _numbered(name: str, suffix: str = "") -> re.Pattern[str]:
    return re.compile(rf"{name}-([1-9][0-9]*){suffix}", re.ASCII)


_AT_ONCE = "requests at once"
_LINES = (
    _Line(
        "Throughput against concurrency", "total_tok_s", "tok/s", _numbered("concurrent"), _AT_ONCE
    ),
    _Line("First token against concurrency", "ttft_ms", "ms", _numbered("concurrent"), _AT_ONCE),
    _Line("First token of short prompts", "ttft_ms", "ms", _numbered("ttft-at"), _AT_ONCE),
    _Line("Reading 1,000 tokens at once", "total_tok_s", "tok/s", _numbered("rag"), _AT_ONCE),
    _Line("Speed against length", "tok_s", "tok/s", _numbered("decode"), "tokens of the answer"),
    _Line(
        "Reading against length",
        "prefill_tok_s",
        "tok/s",
        _numbered("prefill", "k"),
        "thousand tokens of the prompt",
    ),
)


@dataclass(frozen=True)
class FigureRow:
    """One figure as it is shown."""

    workload: str
    label: str
    unit: str
    measured: str
    expected: str
    verdict: Verdict | None


@dataclass(frozen=True)
class BenchmarkReport:
    """The report of a benchmark: the verdict, lines for the terminal, and the page."""

    verdict: str
    table: list[str]
    page: str


def report(result: Result, expected: Figures) -> BenchmarkReport:
    """Return all that there is to say of a result.

    Args:
        result: what the benchmark wrote, as parsed JSON.
        expected: workload -> metric -> figure of the recipe, for the number of Sparks in question.
    """
    measured = figures(result)
    judged = verdicts(measured, expected)
    found = causes(result, judged)
    shown = _rows(measured, judged)
    verdict = overall(judged)
    table = _table(shown, verdict, found)
    return BenchmarkReport(verdict, table, _page(result, measured, expected, shown, verdict, found))


def _rows(measured: Figures, judged: Sequence[Verdict]) -> list[FigureRow]:
    by_key = {(each.workload, each.metric): each for each in judged}
    rows = []
    for workload in dict.fromkeys([*measured, *(each.workload for each in judged)]):
        for metric, (label, unit) in METRICS.items():
            verdict = by_key.get((workload, metric))
            value = measured.get(workload, {}).get(metric)
            if verdict is None and value is None:
                continue
            wanted = verdict.expected if verdict else None
            told = (_figure(metric, value), _figure(metric, wanted))
            rows.append(FigureRow(workload, label, unit, *told, verdict))
    return rows


def _figure(metric: str, value: float | None) -> str:
    return plots.number(value * 100 if value is not None and metric in _SHARES else value)


def _table(rows: Sequence[FigureRow], verdict: str, found: Sequence[Diagnosis]) -> list[str]:
    """Return the deciding figures, the verdict and the causes, a line each."""
    lines = [f"{'workload':<16}{'':<28}{'measured':>8}{'expected':>9}  verdict"]
    for row in rows:
        if row.verdict is None and row.label != METRICS["tok_s"][0]:
            continue
        if row.verdict and row.verdict.standing == MISSING:
            # Of a workload that nobody asked for, for the most part: the page has them all.
            continue
        word = row.verdict.word if row.verdict else ""
        name = f"{row.label}, {row.unit}".rstrip(", ")
        lines.append(
            f"{row.workload:<16}{name:<28}{row.measured:>8}{row.expected:>9}  {word}".rstrip()
        )
    lines.append(f"verdict: {verdict}")
    for each in found:
        lines += [f"likely cause: {each.cause}", f"  seen: {each.evidence}"]
        lines.append(f"  remedy: {each.remedy}.")
    if verdict == BELOW and not found:
        lines.append("no known cause fits what was recorded")
    return lines


def _page(
    result: Result,
    measured: Figures,
    expected: Figures,
    rows: Sequence[FigureRow],
    verdict: str,
    found: Sequence[Diagnosis],
) -> str:
    began, ended = (datetime.fromtimestamp(result[key], UTC) for key in ("started", "ended"))
    return render(
        _TEMPLATE,
        result=result,
        began=began.strftime("%Y-%m-%d %H:%M UTC"),
        minutes=f"{(ended - began).total_seconds() / 60:.0f}",
        rows=rows,
        verdict=verdict,
        nothing=verdict == NOTHING,
        compared=bool(expected),
        causes=found,
        skipped=[each for each in result["workloads"] if each.get("skipped")],
        plots=[*_plots(measured, expected), *_drafts(result)],
        gpu=_gpu(result),
    )


def _plots(measured: Figures, expected: Figures) -> list[tuple[str, str, Markup]]:
    """Return heading, unit and plot of whatever there are figures for."""
    found = []
    for metric, title in (
        ("tok_s", "Speed of one answer"),
        ("total_tok_s", "All answers together"),
        ("acceptance", "Drafts accepted"),
    ):
        factor, unit = (100, "%") if metric == "acceptance" else (1, "tok/s")
        rows = [
            (name, _times(own.get(metric), factor), _times(_wanted(expected, name, metric), factor))
            for name, own in measured.items()
            if metric in own and not _is_in_a_line(name, metric)
        ]
        if rows and (metric != "total_tok_s" or any(row[2] for row in rows)):
            found.append((title, unit, plots.bars(f"{title}, {unit}, by workload", rows, unit)))
    for line in _LINES:
        own, wanted = _points(line, measured), _points(line, expected)
        if own:
            series = ({"expected": wanted} if wanted else {}) | {"measured": own}
            plot = plots.lines(line.title, series, line.x, line.unit)
            found.append((line.title, line.unit, plot))
    return found


def _is_in_a_line(name: str, metric: str) -> bool:
    """Tell whether a plot over numbers shows it, or its answers are too short to show a speed."""
    if name.startswith("concurrent-"):
        return metric == "total_tok_s"
    return name.startswith("ttft-") or any(line.names.fullmatch(name) for line in _LINES)


def _times(value: float | None, factor: int) -> float | None:
    return None if value is None else value * factor


def _wanted(expected: Figures, workload: str, metric: str) -> float | None:
    return expected.get(workload, {}).get(metric)


def _points(line: _Line, known: Figures) -> list[tuple[float, float]]:
    return sorted(
        (float(found[1]), own[line.metric])
        for name, own in known.items()
        if (found := line.names.fullmatch(name)) and line.metric in own
    )


def _drafts(result: Result) -> list[tuple[str, str, Markup]]:
    """Return the plot of how many drafts hold how far, where there are drafts."""
    shares = accepted_by_place(result)
    if not shares:
        return []
    title = "Drafts accepted, by place"
    rows = [(f"token {place}", 100 * share, None) for place, share in enumerate(shares, 1)]
    return [(title, "%", plots.bars(f"{title}, %", rows, "%"))]


def _gpu(result: Result) -> list[tuple[str, str, Markup]]:
    """Return clock, power and temperature over time, those that were read."""
    samples: list[list[Any]] = result["gpu"]
    bands = [
        (
            min(run["started"] for run in each["runs"]),
            max(run["ended"] for run in each["runs"]),
            each["name"],
        )
        for each in result["workloads"]
        if each["runs"]
    ]
    # A last reading may come after the last answer.
    end = max([result["ended"] - result["started"], *(each[0] for each in samples)])
    found = []
    for column, (title, unit) in enumerate(
        (("Clock", "MHz"), ("Power", "W"), ("Temperature", "°C")), 1
    ):
        points = [(each[0], each[column]) for each in samples if each[column] is not None]
        if points:
            plot = plots.over_time(f"GPU: {title.lower()}, {unit}", points, end, unit, bands)
            found.append((title, unit, plot))
    return found
