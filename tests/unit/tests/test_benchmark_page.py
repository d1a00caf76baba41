"""The page that `make bench` writes."""

import json
from pathlib import Path

import pytest

from tests.benchmarks.no_op import AIMS, LOGIN, OURS
from tests.benchmarks.page import PAGE, filled, no_op_table, write_page


def _cost(seconds: float) -> dict[str, float]:
    return {"seconds": seconds, "cpu": seconds / 2, "memory": 2**20}


def test_a_table_has_ratios_to_a_login_and_to_ours() -> None:
    table = {LOGIN: _cost(0.5), OURS: _cost(2), "Ansible": _cost(30)}
    rows = no_op_table("on a LAN", table, AIMS)
    assert rows[-1] == f"| Ansible | 30.00 | 15.00 | 60.0 | 15.0 | {AIMS['Ansible']} |"


def test_a_section_of_the_page_is_made_anew_and_all_else_stays() -> None:
    page = "a\n<!-- x: by make bench -->\nold\n<!-- end of x -->\nz\n"
    once = filled(page, "x", "new\n")
    assert once == "a\n<!-- x: by make bench -->\n\nnew\n\n<!-- end of x -->\nz\n"
    assert filled(once, "x", "new\n") == once
    with pytest.raises(ValueError, match="y: by make bench"):
        filled(page, "y", "new")


def test_the_page_takes_the_figures_of_every_section(tmp_path: Path) -> None:
    table = {LOGIN: _cost(0.5), OURS: _cost(2.25), "Ansible": _cost(30)}
    no_op = {"rounds": 5, "aims": AIMS, "tasks": 27, "items": 70, "machine": {"kernel": "6.1"}}
    far = {LOGIN: _cost(1), OURS: _cost(3.15), "Ansible": _cost(60)}
    figures = {
        "no-op": {**no_op, "tables": {"on a LAN": table, "far away": far}},
        "fleet": {"1": _cost(2), "64": _cost(23)},
    }
    write_page(tmp_path, json.loads(json.dumps(figures)))
    page = (tmp_path / PAGE.name).read_text()
    for text in ("| ours | 2.25 |", "| 64 | 11.5 |", "takes 0.17 CPU"):
        assert text in page
    assert "a login takes 10 round trips, and a run of ours 18" in page
