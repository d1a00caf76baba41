"""No control character of a Spark or a hub reaches the terminal of the operator."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparkwright.common.terminal import LINE, plain, plain_lines, styled_lines
from tests.component import command_line
from tests.security.hostile import ESCAPES


@given(st.text())
@example(ESCAPES)
def test_plain_text_is_text(text: str) -> None:
    shown = plain(text)
    assert shown.isprintable()
    assert len(shown) <= LINE + 1
    assert all(line.isprintable() for line in plain_lines(text).split("\n"))
    assert plain("déjà vu · 22.0 GB") == "déjà vu · 22.0 GB"


@given(st.lists(st.text() | st.sampled_from(["\x1b[31m", "\x1b[0m", "\x1b[1m", ESCAPES])))
def test_styles_stay_and_nothing_else(parts: list[str]) -> None:
    shown = styled_lines("".join(parts))
    assert re.sub(r"\x1b\[(0|1|3[0-7]|9[0-7])m", "", shown).replace("\n", "").isprintable()
    assert styled_lines(click.style("fine", "red", bold=True)) == click.style(
        "fine", "red", bold=True
    )


# All ways from a Spark to the operator's terminal: a fact that fails, a command that fails and its
# output, a refusal, a notice, a job's progress, a log line, bad input.
INVENTORY = """
hosts = ["@local"]
from sparkwright.run.screen import keep_screen_plain
keep_screen_plain()
"""
DEPLOY = """
import json
from pyinfra import host, logger
from pyinfra.api import FunctionCommand, StringCommand, operation
from sparkwright.common.facts import HostFact
from sparkwright.common.operations import failing, notice
from sparkwright.common.errors import PlanError
from sparkwright.common.progress import JobProgress, Meter
from sparkwright.run.target import bad_input

ESCAPES = json.loads(HOSTILE)
PRINTED = "printf %b " + repr("".join(f"\\0{byte:03o}" for byte in ESCAPES.encode()))

class Said(HostFact[int]):
    def command(self):
        return PRINTED

    def parse(self, output):
        raise ValueError(output[0])

def shown(state, host):
    host.log(f"raw {ESCAPES}")
    host.log(Meter().line(JobProgress("downloading", 1, 2, f"job {ESCAPES}"), 1.0))
    logger.error("%s", f"logged {ESCAPES}")
    return True

@operation()
def work(way):
    notice(f"notice {ESCAPES}")
    if way == "fact":
        host.get_fact(Said)
    if way == "command":
        yield StringCommand(PRINTED + "; " + PRINTED + " >&2; false")
    if way == "failing":
        yield failing(f"failing {ESCAPES}")
    if way == "input":
        with bad_input():
            raise PlanError(f"input {ESCAPES}")
    yield FunctionCommand(shown, (), {})

for each in WAYS:
    work(name=f"Hostile {each}", way=each, _ignore_errors=True)
"""


@pytest.mark.parametrize("ways", [["fact", "command", "failing", "log"], ["input"]])
def test_no_escape_reaches_the_terminal(tmp_path: Path, ways: list[str]) -> None:
    (tmp_path / "inventory.py").write_text(INVENTORY)
    deploy = DEPLOY.replace("HOSTILE", repr(json.dumps(ESCAPES))).replace("WAYS", repr(ways))
    (tmp_path / "deploy.py").write_text(deploy)
    _, said = command_line.run(tmp_path, "-y", "-vvv")
    for word in ("raw", "job", "logged", "notice") if len(ways) > 1 else ("input",):
        assert re.search(rf"{word} .*owned", said), said
    assert len(re.findall("owned", said)) > len(ways)
    assert [each for each in said if each != "\n" and not each.isprintable()] == []
