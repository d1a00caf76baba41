"""The report of a benchmark: lines for the terminal, and one HTML file that needs nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

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


class _Line(NamedTuple):
    """A plot of one metric over workloads that differ in a number.

    Attributes:
        names: of the workloads, with the number as a group.
        x: what the number is.
    """

    title: str
    metric: str
    names: re.Pattern[str]
    x: str


def _numbered(name: str, suffix: str = "") -> re.Pattern[str]:
    return re.compile(rf"{name}-([1-9][0-9]*){suffix}", re.ASCII)


_AT_ONCE = "requests at once"
_LINES = (
    _Line("Throughput against concurrency", "total_tok_s", _numbered("concurrent"), _AT_ONCE),
    _Line("First token against concurrency", "ttft_ms", _numbered("concurrent"), _AT_ONCE),
    _Line("First token of short prompts", "ttft_ms", _numbered("ttft-at"), _AT_ONCE),
    _Line("Reading 1,000 tokens at once", "total_tok_s", _numbered("rag"), _AT_ONCE),
    _Line("Speed against length", "tok_s", _numbered("decode"), "tokens of the answer"),
    _Line(
        "Reading against length",
        "prefill_tok_s",
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
    """Return the report of a result, beside a recipe's figures for this number of Sparks."""
    measured = figures(result)
    judged = verdicts(measured, expected)
    likely = causes(result, judged)
    rows = _rows(measured, judged)
    verdict = overall(judged)
    page = _page(result, measured, expected, rows, verdict, likely)
    return BenchmarkReport(verdict, _table(rows, verdict, likely), page)


def _rows(measured: Figures, judged: Sequence[Verdict]) -> list[FigureRow]:
    by_key = {(each.workload, each.metric): each for each in judged}
    rows = []
    for workload in dict.fromkeys([*measured, *(each.workload for each in judged)]):
        for metric, (label, unit) in METRICS.items():
            verdict = by_key.get((workload, metric))
            value = measured.get(workload, {}).get(metric)
            if verdict is None and value is None:
                continue
            figure = plots.number(_scaled(metric, value))
            wanted = plots.number(_scaled(metric, verdict.expected if verdict else None))
            rows.append(FigureRow(workload, label, unit, figure, wanted, verdict))
    return rows


def _scaled(metric: str, value: float | None) -> float | None:
    """Return a figure in the unit of its metric: shares are recorded as 0 to 1."""
    return value * 100 if value is not None and METRICS[metric][1] == "%" else value


def _table(rows: Sequence[FigureRow], verdict: str, likely: Sequence[Diagnosis]) -> list[str]:
    """Return the deciding figures, the verdict and the causes, a line each."""
    lines = [f"{'workload':<16}{'':<28}{'measured':>8}{'expected':>9}  verdict"]
    for row in rows:
        if row.verdict is None and row.label != METRICS["tok_s"][0]:
            continue
        if row.verdict and row.verdict.standing == MISSING:
            # Most of these workloads were not part of the benchmark; the page has them all.
            continue
        word = row.verdict.word if row.verdict else ""
        name = f"{row.label}, {row.unit}".rstrip(", ")
        lines.append(
            f"{row.workload:<16}{name:<28}{row.measured:>8}{row.expected:>9}  {word}".rstrip()
        )
    lines.append(f"verdict: {verdict}")
    for each in likely:
        lines += [f"likely cause: {each.cause}", f"  seen: {each.evidence}"]
        lines.append(f"  remedy: {each.remedy}.")
    if verdict == BELOW and not likely:
        lines.append("no known cause fits what was recorded")
    return lines


def _page(
    result: Result,
    measured: Figures,
    expected: Figures,
    rows: Sequence[FigureRow],
    verdict: str,
    likely: Sequence[Diagnosis],
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
        causes=likely,
        skipped=[each for each in result["workloads"] if each.get("skipped")],
        plots=[*_plots(measured, expected), *_drafts(result)],
        gpu=_gpu(result),
    )


def _plots(measured: Figures, expected: Figures) -> list[tuple[str, str, Markup]]:
    """Return heading, unit and plot of each metric that has figures."""
    result = []
    for metric in ("tok_s", "total_tok_s", "acceptance"):
        title, unit = METRICS[metric]
        rows = [
            (
                name,
                _scaled(metric, own[metric]),
                _scaled(metric, expected.get(name, {}).get(metric)),
            )
            for name, own in measured.items()
            if metric in own and not _is_in_a_line(name, metric)
        ]
        if rows and (metric != "total_tok_s" or any(row[2] for row in rows)):
            result.append((title, unit, plots.bars(f"{title}, {unit}, by workload", rows, unit)))
    for line in _LINES:
        own, wanted = _points(line, measured), _points(line, expected)
        if own:
            unit = METRICS[line.metric][1]
            series = ({"expected": wanted} if wanted else {}) | {"measured": own}
            result.append((line.title, unit, plots.lines(line.title, series, line.x, unit)))
    return result


def _is_in_a_line(name: str, metric: str) -> bool:
    """Tell whether a line plot shows it, or its answers are too short to show a speed."""
    if name.startswith("concurrent-"):
        return metric == "total_tok_s"
    return name.startswith("ttft-") or any(line.names.fullmatch(name) for line in _LINES)


def _points(line: _Line, workloads: Figures) -> list[tuple[float, float]]:
    return sorted(
        (float(match[1]), own[line.metric])
        for name, own in workloads.items()
        if (match := line.names.fullmatch(name)) and line.metric in own
    )


def _drafts(result: Result) -> list[tuple[str, str, Markup]]:
    """Return the plot of the accepted share of each draft's first, second, … token, if any."""
    shares = accepted_by_place(result)
    if not shares:
        return []
    title = "Drafts accepted, by place"
    rows = [(f"token {place}", 100 * share, None) for place, share in enumerate(shares, 1)]
    return [(title, "%", plots.bars(f"{title}, %", rows, "%"))]


def _gpu(result: Result) -> list[tuple[str, str, Markup]]:
    """Return the plots of clock, power and temperature over time, where there are readings."""
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
    readings = []
    for column, (title, unit) in enumerate(
        (("Clock", "MHz"), ("Power", "W"), ("Temperature", "°C")), 1
    ):
        points = [(each[0], each[column]) for each in samples if each[column] is not None]
        if points:
            plot = plots.over_time(f"GPU: {title.lower()}, {unit}", points, end, unit, bands)
            readings.append((title, unit, plot))
    return readings
