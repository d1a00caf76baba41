"""Grafana's dashboard: whether its graphs compute what they say."""

import json
import re
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[2] / "files" / "host" / "insight" / "monitoring" / "dashboard.json"
PANELS: list[dict[str, Any]] = json.loads(FILE.read_text())["panels"]
GRAPHS = [panel for panel in PANELS if panel["type"] == "timeseries"]


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
