"""What a user reads while a job runs."""

import pytest

from sparkwright.common.progress import JobProgress, ProgressLines, duration_text, size_text


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


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        *((size_text(0), "0 kB"), (size_text(999), "1 kB"), (size_text(5.25e6), "5.2 MB")),
        *((size_text(123.4e6), "123 MB"), (size_text(1.2e9), "1.2 GB")),
        *((duration_text(0.4), "0 s"), (duration_text(59.4), "59 s")),
        *((duration_text(59.6), "1 min 0 s"), (duration_text(100), "1 min 40 s")),
        (duration_text(7500), "2 h 5 min"),
    ],
)
def test_sizes_and_durations(shown: str, text: str) -> None:
    assert shown == text
