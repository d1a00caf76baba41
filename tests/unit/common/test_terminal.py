"""Long problems on a terminal: broken between words."""

import io
from typing import Any

import pytest

from sparkwright.common.terminal import wrapped

PROBLEMS = "sparks.yaml:2: found x; " + "expected y " * 12 + "at /a/path/" + "long" * 30 + "\nshort"


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_lines_are_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = wrapped(PROBLEMS, Screen()).split("\n")
    assert lines[-1] == "short"
    path = "/a/path/" + "long" * 30
    assert all(len(line) <= 80 for line in lines if path not in line)
    assert all(line.startswith("  ") for line in lines[1:-1])
    assert " ".join(line.strip() for line in lines[:-1]) == PROBLEMS.partition("\n")[0]


@pytest.mark.parametrize("stream", [io.StringIO()])
def test_a_file_has_each_problem_on_a_line(stream: Any) -> None:
    assert wrapped(PROBLEMS, stream) == PROBLEMS
