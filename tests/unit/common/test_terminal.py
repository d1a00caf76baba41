"""Long problems on a terminal: broken between words."""

import io

import pytest

from sparkwright.common.terminal import wrapped

PROBLEMS = "sparks.yaml:2: found x; " + "expected y " * 12 + "at /a/path/" + "long" * 30 + "\nshort"


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_has_lines_broken_between_words_and_a_file_each_problem_on_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = wrapped(PROBLEMS, Screen()).split("\n")
    assert lines[-1] == "short"
    path = "/a/path/" + "long" * 30
    assert all(len(line) <= 80 for line in lines if path not in line)
    assert all(line.startswith("  ") for line in lines[1:-1])
    assert " ".join(line.strip() for line in lines[:-1]) == PROBLEMS.partition("\n")[0]
    assert wrapped(PROBLEMS, io.StringIO()) == PROBLEMS
