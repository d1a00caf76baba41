"""The width of pyinfra's tables."""

import click
import pytest

from sparkwright.run.screen import fitting

HEAD = ["Operation", "Change", "Conditional Change"]
NAMES = ["Hugging Face tools | Environment with huggingface_hub", "Engine | Serve the release"]


def lines(width: int) -> list[str]:
    """Return what pyinfra prints of a table that was fitted: four spaces, three between columns."""
    table = [HEAD, *([click.style(name, bold=True), "2 (spark-a, spark-b)", "-"] for name in NAMES)]
    rows = [
        [*map(click.unstyle, cells)] for _, cells in fitting([(None, row) for row in table], width)
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = ([cell.ljust(most) for cell, most in zip(row, widths, strict=True)] for row in rows)
    return ["    " + "   ".join(row) + "   " for row in padded]


@pytest.mark.parametrize("width", [75, 80, 90])
def test_a_table_fits_a_narrow_terminal(width: int) -> None:
    head, first, second = lines(width)
    assert max(map(len, (head, first, second))) <= width
    assert first.split("…")[0].strip() in NAMES[0]
    assert "2 (spark-a, spark-b)" in first
    assert NAMES[1][:20] in second


def test_a_wide_terminal_gets_all_of_it() -> None:
    assert NAMES[0] in lines(120)[1]
