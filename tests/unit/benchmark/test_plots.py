"""Plots show numbers to scale, inside their frame."""

import re
from collections.abc import Iterator

import pytest

from sparkwright.benchmark.plots import bars, lines, number, over_time

ROWS = [("first", 30.0, 40.0), ("second", 60.0, None), ("third", None, 80.0)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((None, "-"), (0, "0"), (3.0, "3"), (6.5, "6.50"), (9.99, "9.99"), (10.5, "10.5")),
        *(
            (48.61, "48.6"),
            (313.6, "313.6"),
            (999.5, "999.5"),
            (1000.4, "1,000"),
            (14100, "14,100"),
        ),
        *((-10.5, "-10.5"), (-1000.4, "-1,000")),
    ],
)
def test_numbers_as_people_read_them(value: float | None, text: str) -> None:
    assert number(value) == text


class Shape:
    """An element of an SVG."""

    def __init__(self, tag: str, attributes: str, text: str) -> None:
        self.tag, self.text = tag, text
        self.own = dict(re.findall(r'([\w-]+)="([^"]*)"', attributes))

    def __getitem__(self, name: str) -> float:
        return float(self.own[name])


def shapes(svg: str, kind: str = "", tag: str = "") -> list[Shape]:
    found = re.findall(r"<(rect|text|circle|line|polyline) ([^>]*?)/?>(?:<title>)?([^<]*)", svg)
    every = [Shape(*each) for each in found]
    return [e for e in every if e.own["class"].startswith(kind) and e.tag.startswith(tag)]


def points(svg: str, kind: str = "measured") -> list[tuple[float, float]]:
    (line,) = shapes(svg, kind, "polyline")
    pairs = [pair.split(",") for pair in line.own["points"].split()]
    return [(float(x), float(y)) for x, y in pairs]


def frame(svg: str) -> tuple[float, float]:
    box = re.search(r'viewBox="0 0 (\S+) (\S+)"', svg)
    assert box
    return float(box[1]), float(box[2])


def spots(svg: str) -> Iterator[tuple[float, float]]:
    """Every point that an SVG speaks of."""
    for each in shapes(svg, tag="rect"):
        yield each["x"], each["y"]
        yield each["x"] + each["width"], each["y"] + each["height"]
    for each in shapes(svg, tag="text"):
        yield each["x"], each["y"]
    for each in shapes(svg, tag="circle"):
        yield each["cx"], each["cy"]
    for each in shapes(svg, tag="line"):
        yield each["x1"], each["y1"]
        yield each["x2"], each["y2"]
    for each in shapes(svg, tag="polyline"):
        yield from points(svg, each.own["class"])


SERIES = {"measured": [(1, 10.0), (4, 30.0), (16, 40.0)], "expected": [(1, 20.0), (16, 35.0)]}
READINGS = [(0.0, 10.0), (60.0, 30.0), (120.0, 40.0)]
BANDS = [(0.0, 30.0, "short"), (30.0, 90.0, "long"), (90.0, 90.0, "none")]
PLOTS = [
    bars("t", ROWS, "tok/s"),
    bars("t", [], "tok/s"),
    lines("t", SERIES, "at once", "tok/s"),
    over_time("t", READINGS, 120, "W", BANDS),
    over_time("t", [], 120, "W", []),
]


@pytest.mark.parametrize("svg", PLOTS)
def test_nothing_is_outside_the_frame(svg: str) -> None:
    width, height = frame(svg)
    assert all(0 <= x <= width and 0 <= y <= height for x, y in spots(svg))


def test_bars_are_as_long_as_their_figures() -> None:
    svg = bars("t", ROWS, "tok/s")
    measured, expected = shapes(svg, "measured"), shapes(svg, "expected")
    unit = expected[1]["width"] / 80
    assert unit > 2
    assert [each["width"] for each in measured] == pytest.approx([30 * unit, 60 * unit, 0], abs=0.1)
    assert [each["width"] for each in expected] == pytest.approx([40 * unit, 80 * unit], abs=0.1)
    assert len({each["x"] for each in measured + expected}) == 1
    assert [each.text for each in measured] == [
        *("first: 30 tok/s", "second: 60 tok/s", "third: - tok/s")
    ]
    assert [each.text for each in expected] == ["first: 40 expected", "third: 80 expected"]


def test_rows_of_bars_have_a_place_each() -> None:
    svg = bars("t", ROWS, "tok/s")
    tops = [each["y"] for each in shapes(svg, "measured")]
    assert (
        tops[1] - tops[0] == tops[2] - tops[1] == frame(svg)[1] - frame(bars("t", ROWS[:2], ""))[1]
    )
    # What was measured is above what should be, which is above the next row.
    below = [each["y"] for each in shapes(svg, "expected")]
    height = shapes(svg, "measured")[0]["height"]
    assert tops[0] + height < below[0] < below[0] + shapes(svg, "expected")[0]["height"] < tops[1]
    names = shapes(svg, "label")
    assert [each.text for each in names] == ["first", "second", "third"]
    assert all(top < name["y"] < top + 24 for top, name in zip(tops, names, strict=True))


def test_a_bar_ends_at_its_figure() -> None:
    svg = bars("t", ROWS, "tok/s")
    for kind, told in (("measured", "figure"), ("expected", "small")):
        for bar, text in zip(shapes(svg, kind), shapes(svg, told), strict=True):
            assert 0 < text["x"] - (bar["x"] + bar["width"]) < 10
            assert bar["y"] < text["y"] <= bar["y"] + bar["height"]


def test_lines_grow_by_factors_to_the_right_and_evenly_upwards() -> None:
    svg = lines("t", SERIES, "at once", "tok/s")
    (x1, y1), (x4, y4), (x16, y16) = points(svg)
    assert x4 - x1 == pytest.approx(x16 - x4, abs=0.2)
    assert (y1 - y16) / 30 == pytest.approx((y4 - y16) / 10, abs=0.02)
    assert [(each["cx"], each["cy"]) for each in shapes(svg, "measured", "circle")] == points(svg)
    ticks = [each for each in shapes(svg, "small") if each.own["text-anchor"] == "middle"]
    assert [(each["x"], each.text) for each in ticks] == [(x1, "1"), (x4, "4"), (x16, "16")]
    assert shapes(svg, "expected", "circle")[1].text == "35 tok/s at 16, expected"


@pytest.mark.parametrize(
    ("highest", "top"),
    [(0, 1), (1, 1), (1.1, 2), (2.2, 2.5), (3, 4), (4.5, 5), (7, 10), (0.03, 0.04), (410, 500)],
)
def test_the_grid_has_round_numbers_and_its_points_lie_on_it(highest: float, top: float) -> None:
    svg = lines("t", {"measured": [(1, 0), (2, highest)]}, "x", "y")
    axis = [each for each in shapes(svg, "small") if each.own["text-anchor"] == "end"][:3]
    assert [each.text for each in axis] == [number(share * top) for share in (0, 0.5, 1)]
    bottom, middle, upper = [each["y1"] for each in shapes(svg, "grid")]
    assert bottom - middle == pytest.approx(middle - upper, abs=0.1)
    assert all(abs(a["y"] - b["y1"]) < 6 for a, b in zip(axis, shapes(svg, "grid"), strict=True))
    (_, low), (_, high) = points(svg)
    assert low == bottom
    assert bottom - high == pytest.approx((bottom - upper) * highest / top, abs=0.1)


def test_one_column_alone_is_in_the_middle() -> None:
    ((x, _),) = points(lines("t", {"measured": [(3, 5)]}, "x", "y"))
    (left, _), *_, (right, _) = points(lines("t", SERIES, "x", "y"))
    assert x == pytest.approx((left + right) / 2, abs=0.1)


def test_readings_and_bands_have_one_scale() -> None:
    svg = over_time("t", READINGS, 120, "W", BANDS)
    (start, _), (middle, _), (end, _) = points(svg)
    assert middle - start == pytest.approx(end - middle, abs=0.1)
    assert [y for _, y in points(svg)][2] == shapes(svg, "grid")[2]["y1"]
    second = (end - start) / 120
    for band, (begins, ends, name) in zip(shapes(svg, "band"), BANDS, strict=True):
        assert band["x"] == pytest.approx(start + begins * second, abs=0.1)
        # One without any length is seen all the same.
        assert band["width"] == pytest.approx(max(1, (ends - begins) * second), abs=0.1)
        assert band.text == name
        bottom, _, top = [each["y1"] for each in shapes(svg, "grid")]
        assert (band["y"], band["y"] + band["height"]) == (top, bottom)
    kinds = [band.own["class"] for band in shapes(svg, "band")]
    assert kinds == ["band", "band other", "band"]
    minutes = [each for each in shapes(svg, "small") if each.text.endswith(" min")]
    assert [each.text for each in minutes] == ["0.0 min", "1.0 min", "2.0 min"]
    assert [each["x"] for each in minutes] == pytest.approx([start, middle, end], abs=0.1)
    assert [each.own["text-anchor"] for each in minutes] == ["start", "middle", "end"]


def test_nothing_to_show_is_an_empty_plot() -> None:
    assert shapes(bars("t", [("v", 0, None)], "tok/s"), "measured")[0]["width"] == 0
    axis = [each.text for each in shapes(over_time("t", [], 0, "W", []), "small")]
    assert axis[:3] == ["0", "0.50", "1"]
    assert axis[-1] == "0.0 min"
