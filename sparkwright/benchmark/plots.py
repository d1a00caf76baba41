"""Plots as inline SVG: pure functions from numbers to marked-up text."""

from collections.abc import Mapping, Sequence
from math import log10

from markupsafe import Markup

Points = Sequence[tuple[float, float]]
Bands = Sequence[tuple[float, float, str]]

# In units of the SVG's own coordinates; the page scales them to its width.
_WIDTH, _HEIGHT = 500, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 14, 20, 42
_BAR = 40
_NAMES, _FIGURES = 124, 58


def number(value: float | None) -> str:
    """Return a figure for people: with at most two decimals, and commas between thousands."""
    if value is None:
        return "-"
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def bars(title: str, rows: Sequence[tuple[str, float | None, float | None]], unit: str) -> Markup:
    """Return horizontal bars of measured figures, each with a bar of the expected one."""
    top = max((value for row in rows for value in row[1:] if value), default=1.0)
    parts, left, room = [], _NAMES, _WIDTH - _NAMES - _FIGURES
    for index, (name, measured, expected) in enumerate(rows):
        y = index * _BAR + 8
        width = room * (measured or 0) / top
        parts.append(_text(left - 10, y + 19, name, "end", "label"))
        if expected:
            x = left + room * expected / top
            hint = f"{name}: {number(expected)} expected"
            parts.append(_rect(left, y + 20, x - left, 8, "expected", hint))
            parts.append(_text(x + 6, y + 28, number(expected), "start", "small"))
        hint = f"{name}: {number(measured)} {unit}"
        parts.append(_rect(left, y + 4, width, 14, "measured", hint))
        parts.append(_text(left + width + 6, y + 16, number(measured), "start", "figure"))
    return _svg(title, len(rows) * _BAR + 8, parts)


def lines(title: str, series: Mapping[str, Points], x_name: str, y_name: str) -> Markup:
    """Return lines over a number that grows by factors, and so has a logarithmic axis.

    Args:
        series: class ("measured" or "expected") -> points of x >= 1 and y.
    """
    points = [point for each in series.values() for point in each]
    ticks = sorted({x for x, _ in points})
    low, high = log10(ticks[0]), log10(ticks[-1])
    top = _ceiling(max(y for _, y in points))

    def place(x: float, y: float) -> tuple[float, float]:
        share = (log10(x) - low) / (high - low) if high > low else 0.5
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT - 20) + 10, _y(y, top)

    parts = _grid(top, y_name)
    parts += [_text(place(x, 0)[0], _HEIGHT - 22, number(x), "middle", "small") for x in ticks]
    parts.append(_text(_WIDTH - _RIGHT, _HEIGHT - 6, x_name, "end", "small"))
    for kind, each in series.items():
        parts.append(_path([place(*point) for point in each], kind))
        for x, y in each:
            shape = '<circle class="{}" cx="{:.1f}" cy="{:.1f}" r="4"><title>{}</title></circle>'
            hint = f"{number(y)} {y_name} at {number(x)}, {kind}"
            parts.append(Markup(shape).format(kind, *place(x, y), hint))
    return _svg(title, _HEIGHT, parts)


def over_time(title: str, points: Points, end: float, unit: str, bands: Bands) -> Markup:
    """Return readings over seconds, with a shaded band for each workload.

    Args:
        end: seconds at the right edge.
        bands: from, to, name.
    """
    height = 160
    top = _ceiling(max((y for _, y in points), default=1.0))
    scale = (_WIDTH - _LEFT - _RIGHT) / max(end, 1)
    parts: list[Markup] = []
    for index, (start, stop, name) in enumerate(bands):
        shade = "band" if index % 2 == 0 else "band other"
        width = max((stop - start) * scale, 1)
        parts.append(_rect(_LEFT + start * scale, _TOP, width, height - _TOP - 30, shade, name))
    parts += _grid(top, unit, height, 30)
    parts.append(
        _path([(_LEFT + x * scale, _y(y, top, height, 30)) for x, y in points], "measured")
    )
    for share in (0, 0.5, 1):
        anchor = ("start", "middle", "end")[int(share * 2)]
        x = _LEFT + share * (_WIDTH - _LEFT - _RIGHT)
        parts.append(_text(x, height - 10, f"{share * end / 60:.1f} min", anchor, "small"))
    return _svg(title, height, parts)


def _y(value: float, top: float, height: int = _HEIGHT, bottom: int = _BOTTOM) -> float:
    return height - bottom - value / top * (height - bottom - _TOP)


def _ceiling(value: float) -> float:
    """Return the next round number: 1, 2, 2.5, 4, 5 or 10 times a power of ten."""
    power: float = 10 ** int(f"{value:e}".split("e")[1])
    return next(step * power for step in (1, 2, 2.5, 4, 5, 10) if step * power >= value)


def _grid(top: float, name: str, height: int = _HEIGHT, bottom: int = _BOTTOM) -> list[Markup]:
    parts = []
    for share in (0, 0.5, 1):
        y = _y(share * top, top, height, bottom)
        line = '<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>'
        parts.append(Markup(line).format(_LEFT, _WIDTH - _RIGHT, y, y))
        parts.append(_text(_LEFT - 8, y + 4, number(share * top), "end", "small"))
    return [*parts, _text(_LEFT + 2, 11, name, "start", "small")]


def _path(points: Points, kind: str) -> Markup:
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return Markup('<polyline class="{}" points="{}"/>').format(kind, text)


def _rect(x: float, y: float, width: float, height: float, kind: str, hint: str) -> Markup:
    shape = '<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="2">'
    return Markup(shape + "<title>{}</title></rect>").format(kind, x, y, width, height, hint)


def _text(x: float, y: float, text: str, anchor: str, kind: str) -> Markup:
    shape = '<text class="{}" x="{:.1f}" y="{:.1f}" text-anchor="{}">{}</text>'
    return Markup(shape).format(kind, x, y, anchor, text)


def _svg(title: str, height: float, parts: Sequence[Markup]) -> Markup:
    shape = '<svg viewBox="0 0 {} {:.0f}" role="img" aria-label="{}"><title>{}</title>{}</svg>'
    return Markup(shape).format(_WIDTH, height, title, title, Markup("").join(parts))
