"""Grafana's dashboard: where its graphs are, and whether they compute what they say."""

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[2] / "files" / "host" / "insight" / "monitoring" / "dashboard.json"
PANELS: list[dict[str, Any]] = json.loads(FILE.read_text())["panels"]
GRAPHS = [panel for panel in PANELS if panel["type"] == "timeseries"]


def place(panel: dict[str, Any]) -> tuple[int, int, int, int]:
    grid = panel["gridPos"]
    return grid["x"], grid["y"], grid["x"] + grid["w"], grid["y"] + grid["h"]


def test_graphs_stand_three_abreast_and_do_not_overlap() -> None:
    for one, other in combinations(PANELS, 2):
        (left, top, right, bottom), (x, y, end, below) = place(one), place(other)
        assert right <= x or end <= left or bottom <= y or below <= top, (one, other)
    assert {place(panel)[0::2] for panel in GRAPHS} == {(0, 8), (8, 16), (16, 24)}
    assert all(0 <= panel["gridPos"]["x"] < 24 for panel in PANELS)


def test_no_row_of_the_grid_is_left_out() -> None:
    assert PANELS[0]["gridPos"]["y"] == 0
    bottom = max(place(panel)[3] for panel in PANELS)
    assert set(range(bottom)) == {y for panel in PANELS for y in range(*place(panel)[1::2])}


def test_each_section_is_below_its_title() -> None:
    assert sorted(PANELS, key=lambda panel: place(panel)[1::-1]) == PANELS
    rows = [(panel["title"], panel["gridPos"]["w"]) for panel in PANELS if panel not in GRAPHS]
    assert rows == [("Engines", 24), ("Doors", 24), ("Hosts", 24)]
    assert PANELS[0] not in GRAPHS


def test_ids_and_letters_are_unique() -> None:
    assert [panel["id"] for panel in PANELS] == list(range(1, len(PANELS) + 1))
    for panel in GRAPHS:
        letters = [target["refId"] for target in panel["targets"]]
        assert letters == list("ABCDEFGH"[: len(letters)])


def test_a_legend_names_the_quantile_that_is_computed() -> None:
    told = {
        (float(share[1]), target["legendFormat"].rpartition("}} ")[2])
        for panel in GRAPHS
        for target in panel["targets"]
        if (share := re.search(r"histogram_quantile\(([^,]+),", target["expr"]))
    }
    assert told == {(0.5, "median"), (0.95, "95 %")}
