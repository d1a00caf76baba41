"""What a user reads while a job runs; what becomes of the values in a template."""

import pytest
from jinja2 import UndefinedError

from sparkwright.common.progress import JobProgress, ProgressLines
from sparkwright.common.render import render


def test_a_line_has_share_rate_and_time_left() -> None:
    lines = ProgressLines(print)
    total = 22_000_000_000
    assert lines.line(JobProgress("downloading", 0, total, ""), 0) == "downloading 0.0 of 22.0 GB"
    line = lines.line(JobProgress("downloading", 980_000_000, total, ""), 10)
    assert line == "downloading 1.0 of 22.0 GB · 98.0 MB/s · 3 min 34 s left"


def test_the_rate_is_that_of_the_last_seconds() -> None:
    lines = ProgressLines(print)
    for second in range(60):
        lines.line(JobProgress("downloading", second * 10**6, 10**8, ""), second)
    line = lines.line(JobProgress("downloading", 59 * 10**6, 10**8, ""), 79)
    assert line == "downloading 59.0 of 100.0 MB · 0 kB/s"
    # A phase has its own.
    lines.line(JobProgress("verifying", 10**9, 10**9, ""), 80)
    line = lines.line(JobProgress("downloading", 5 * 10**8, 10**9, "waiting"), 85)
    assert line == "downloading 0.5 of 1.0 GB · waiting"


def test_what_becomes_of_values_names_and_conditions() -> None:
    value = "{{ other }} <a href='$x'> 100%"
    assert render("say {{ value }}\n", value=value) == f"say {value}\n"
    with pytest.raises(UndefinedError, match="'rot' is undefined"):
        render("{{ rot }}", root="/r")
    # A condition takes its lines with it.
    text = "a\n  {% if b %}\nb\n  {% endif %}\n{# Why. #}\nc\n"
    assert (render(text, b=True), render(text, b=False)) == ("a\nb\nc\n", "a\nc\n")
