"""README.md: short, and each line that a reader types works, as far as it does without a Spark."""

import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from sparkwright.cli.main import cli
from tests.docs.runs import taken_back
from tests.unit.docs.pages import DOCS, PROJECT, fences

TEXT = (PROJECT / "README.md").read_text()
TYPED = [
    command
    for block in fences(TEXT, "")
    for line in block.splitlines()
    if line.startswith(("$ ", "uv", "make "))
    for command in line.removeprefix("$ ").partition(" #")[0].strip().split(" && ")
]
_BEFORE = ("uv run ", "uvx --from ./sparkwright ")


def test_it_is_short_and_links_to_few_pages() -> None:
    assert len(TEXT.splitlines()) <= 70
    assert len(re.findall(r"\]\((?!\w+:)", TEXT)) <= 12


@pytest.mark.parametrize("line", TYPED)
def test_what_a_reader_types_is_a_command(line: str) -> None:
    for before in _BEFORE:
        line = line.removeprefix(before)
    program, *words = shlex.split(line)
    if program == "sparkwright":
        options = [word for word in words if word.startswith("-")]
        command = cli.commands[words[0]]
        known = {each for parameter in command.params for each in parameter.opts}
        assert set(options) <= known
        assert CliRunner().invoke(cli, [words[0], "--help"]).exit_code == 0
    else:
        assert program in ("cd", "make")


def test_its_first_lines_make_a_site_here_and_on_the_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (line,) = (line for line in TYPED if " init " in line)
    words = shlex.split(line)[shlex.split(line).index("init") :]
    (more,) = re.findall(r"init my-sparks( --spark local)$", TEXT, re.MULTILINE)
    made = CliRunner().invoke(cli, [*words, *more.split(), "--no-connect"])
    assert made.exit_code == 0, made.output
    assert "local: true" in (tmp_path / "my-sparks/inventory/sparks.yaml").read_text()
    for verb in ("plan", "apply"):
        assert f"uv run sparkwright {verb}" in TYPED
        assert f"sparkwright {verb}" in made.output


def test_what_it_shows_was_recorded() -> None:
    page = (DOCS / "first-run.md").read_text().splitlines()
    shown = [line for line in taken_back().splitlines() if line.strip() != "…"]
    assert len(shown) == 4
    assert set(shown) | {"Nothing was changed. To do it: sparkwright apply"} <= set(page)
