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
from tests.commands import sparkwright
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
from sparkwright.run.ending import keep_screen_plain
keep_screen_plain()
"""
DEPLOY = """
import json
from pyinfra import host, logger
from pyinfra.api import FunctionCommand, StringCommand, operation
from sparkwright.machine.host.state import Placed
from sparkwright.run.state import SparkState
from sparkwright.common.operations import failing, notice
from sparkwright.common.errors import PlanError
from sparkwright.common.progress import JobProgress, ProgressLines
from sparkwright.run.target import bad_input

ESCAPES = json.loads(HOSTILE)
PRINTED = "printf %b " + repr("".join(f"\\0{byte:03o}" for byte in ESCAPES.encode()))

class Said(SparkState):
    def command(self):
        self._asks = [Placed.ask()]
        return PRINTED

    def check_preconditions(self, state, host):
        return None

def shown(state, host):
    host.log(f"raw {ESCAPES}")
    host.log(ProgressLines(print).line(JobProgress("downloading", 1, 2, f"job {ESCAPES}"), 1.0))
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
    deploy = DEPLOY.replace("HOSTILE", repr(json.dumps(ESCAPES))).replace("WAYS", repr(ways))
    _, said = command_line.run(tmp_path, "-y", "-vvv", inventory=INVENTORY, deploy=deploy)
    for word in ("raw", "job", "logged", "notice") if len(ways) > 1 else ("input",):
        assert re.search(rf"{word} .*owned", said), said
    assert len(re.findall("owned", said)) > len(ways)
    assert [each for each in said if each != "\n" and not each.isprintable()] == []


# What a stranger may write into a recipe, a file's name or a mod.
HOSTILE = [
    *("\x1b]52;c;cm0gLXJm\x07", "\x1b[2J\x1b[H", "\x1b]0;owned\x07", "\x1b[31m", "\x1bc"),
    *("\x1bP+q\x1b", "\x9b2J", "\x9d52;c;eA==\x9c", "\rfine", "\x08\x08\x08", "\x07", "\x7f"),
    *("\x00", "\x0b", "\x0c", "\u202egnp.exe", "\u2066x\u2069", "\u200f", "\u2028rm", "\u2029"),
    *("\ufeff", "\u200b", "\x85"),
]
THEIRS = """\
recipe_version: "1"
name: x
model: owner/model
container: example.org/vllm:nightly-20260704
command: vllm serve owner/model --port 1
"""


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return all that a command prints, which has to be text."""
    capsys.readouterr()
    sparkwright("recipes", *words)
    said = capsys.readouterr()
    text = said.out + said.err
    # The server of another test may print one of its own meanwhile.
    assert not re.search(r'File "[^"]*/sparkwright/', text)
    assert not [each for each in text if not each.isprintable() and each != "\n"], words
    return text


@pytest.mark.parametrize("words", HOSTILE, ids=ascii)
def test_no_text_of_a_foreign_recipe_reaches_the_terminal_as_it_is(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "files/recipes").mkdir(parents=True)
    theirs = tmp_path / "theirs"
    mod = theirs / "mods/fix"
    mod.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    quoted = json.dumps(words)
    texts = {
        "described": THEIRS + f"description: {quoted}\nmods: [mods/fix]\n",
        "key": THEIRS + f"{quoted}: {quoted}\n",
        "runtime": THEIRS + f"runtime: {quoted}\n",
        "build": THEIRS + f"build_args: [{json.dumps('--' + words)}]\n",
        "mod": THEIRS + f"mods: [{quoted}]\n",
        "variable": THEIRS + f"env: {{{json.dumps('A' + words)}: {quoted}}}\n",
        "named": THEIRS.replace("model: owner/model", f"model: {json.dumps('owner/' + words)}"),
        "image": THEIRS.replace("example.org/vllm:nightly-20260704", json.dumps("a/" + words)),
        "line": THEIRS.replace("command: ", "command: " + json.dumps("X=" + words)[:-1]) + '"',
        "option": THEIRS.replace("--port 1", "--{a} '{a}'") + f"defaults: {{a: {quoted}}}\n",
    }
    for name, text in texts.items():
        (theirs / f"{name}.yaml").write_text(text)
    if not {"\0", "/"} & {*words}:
        (theirs / f"file{words}.yaml").write_text(THEIRS)
        (theirs / f"file{words}").mkdir()
        (theirs / f"file{words}/deep.yaml").write_text(THEIRS + "runtime: x\nvolumes: y\n")
        (theirs / f"wrong{words}.yaml").write_text("command: [x\n")
    (mod / "run.sh").write_text(f"#!/bin/bash\nset -e\ncp x /opt/{words}\n")
    (mod / "x.diff").write_text(f"+++ b/{words}.py\n")
    told = shown(capsys, "import", str(theirs))
    assert "described" in told
    for name in (*texts, f"file{words}", "nothing", words):
        shown(capsys, "import", str(theirs), name.replace("\0", ""))
    shown(capsys, "import", str(tmp_path / words.replace("\0", "")))
    for verb in ("command", "check", "show", "memory"):
        shown(capsys, verb, "described")
        shown(capsys, verb, words.replace("\0", ""))
        shown(capsys, verb, str(theirs / "described.yaml"))
    shown(capsys, "list")
    # As somebody's who wrote it into the site's own.
    own = tmp_path / "files/recipes/own.yaml"
    for key in ("description", "source", "proven", "vllm", "served_names"):
        values = {"description": "x", "source": "x", "proven": "x", key: words}
        values |= {"served_names": [words]} if key == "served_names" else {}
        own.write_text(
            "extends: lab-tiny\n" + "".join(f"{k}: {json.dumps(v)}\n" for k, v in values.items())
        )
        for verb in ("list", "command", "check", "show", "memory"):
            text = shown(capsys, verb, *(["own"] if verb != "list" else []))
            assert "own.yaml:" in text, (verb, key)
    # YAML itself takes some of these in a comment.
    own.write_text(f"# {words}\nextends: lab-tiny\ndescription: x\nsource: x\nproven: x\n")
    shown(capsys, "show", "own")
