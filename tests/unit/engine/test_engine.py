"""The state of the engines, and whether one serves as declared."""

import json
import subprocess
from dataclasses import replace

import pytest

from sparkwright.common.host_output import sections
from sparkwright.declared.recipe.questions import example, shortest
from sparkwright.engine.engine import (
    engine_differences,
    engine_script,
    own_releases,
    parse_engines,
    problem,
    seats_script,
)

OUTPUT = """\
@@current
releases/lab-tiny-12345678
@@enabled
vllm@lab-tiny-12345678.service
@@share
enabled
@@units
Id=vllm@lab-tiny-12345678.service
ActiveState=active
SubState=running
Result=success
NRestarts=2
ExecMainStatus=0
UnitFileState=enabled
NeedDaemonReload=no
Job=
StatusText=serving tiny

Id=vllm@old-00000000.service
ActiveState=failed
SubState=failed
Result=exit-code
NRestarts=0
ExecMainStatus=1
UnitFileState=disabled
NeedDaemonReload=yes
Job=684
StatusText=
@@models
{"object":"list","data":[{"id":"tiny"},{"id":"small"}]}
@@completion
{"choices":[],"usage":{"completion_tokens":1}}
"""
STATE = parse_engines(OUTPUT.splitlines())


def test_units_and_answers_are_read():
    assert STATE.current == "lab-tiny-12345678"
    running = STATE.units["lab-tiny-12345678"]
    assert (running.active, running.enabled, running.restarts) == ("active", True, 2)
    assert (running.needs_reload, running.starting) == (False, False)
    old = STATE.units["old-00000000"]
    assert (old.active, old.enabled, old.needs_reload) == ("failed", False, True)
    assert old.starting
    assert (running.status, old.status) == ("serving tiny", "")
    assert STATE.shares
    assert STATE.models == ("tiny", "small")
    assert problem(STATE, ["tiny", "small"]) is None
    clean = parse_engines(["@@current", "@@enabled", "", "@@share", "@@units"])
    assert (clean.current, clean.units, clean.models, clean.shares) == (None, {}, None, False)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"models": ("other",)}, "does not list tiny"),
        ({"models": None}, "does not list tiny"),
        ({"completion": '{"error": {"message": "boom"}}'}, "boom"),
        ({"completion": "curl: (28) Operation timed out"}, "timed out"),
        ({"completion": None}, "no answer"),
        ({"completion": '{"usage": {"completion_tokens": 0}}'}, "without a token"),
    ],
)
def test_an_engine_that_does_not_serve(answer, reason):
    assert reason in (problem(replace(STATE, **answer), ["tiny"]) or "")


@pytest.mark.parametrize(
    ("answers", "path", "good"),
    [
        ("embeddings", "/v1/embeddings", '{"data": [{"embedding": [0.5, -1]}]}'),
        ("scores", "/v1/rerank", '{"results": [{"relevance_score": 0.5}]}'),
    ],
)
def test_an_engine_is_asked_for_what_it_answers(answers, path, good):
    where = {"root": "/r", "release": "x-1", "model": "tiny"}
    script = engine_script(**where, answers=answers)
    assert f"http://localhost{path} " in script
    assert "completions" not in script
    assert json.dumps(shortest(answers, "tiny").body) in script
    assert example(answers, "tiny").path == path
    assert problem(replace(STATE, completion=good), ["tiny"], answers) is None
    for bad in (good.replace("0.5", "NaN"), '{"data": [{"embedding": []}], "results": []}', None):
        reason = problem(replace(STATE, completion=bad), ["tiny"], answers) or ""
        assert f"a request of {path} gave: {bad or 'no answer'}" in reason
    # A completion proves nothing of it.
    assert problem(STATE, ["tiny"], answers)


def test_the_engines_of_two_replicas_are_told_apart():
    seats = '@@seat\n{}\n@@seats\n/r/releases/old-00000000/unit.json:  "seat": "embed",\n'
    first = parse_engines((seats.format("") + OUTPUT).splitlines())
    assert list(first.units) == ["lab-tiny-12345678"]
    assert first.elsewhere == {"old-00000000"}
    second = parse_engines((seats.format("embed") + OUTPUT).splitlines())
    assert list(second.units) == ["old-00000000"]
    assert second.elsewhere == {"lab-tiny-12345678"}
    assert next(engine_differences(second, "old-00000000")).what == "current release"
    # What fails in one is not the other's.
    told = '@@seat\n\n@@seats\n/r/releases/b-1/unit.json:  "seat": "embed"\n'
    told += "@@switches\nswitch@a-1.service\nswitch@b-1.service\n"
    told += "@@failed\nvllm@a-1.service\nswitch@b-1.service\n"
    state = parse_engines([*told.splitlines(), "@@current", "@@enabled", "@@share", "@@units"])
    assert state.switches == ("a-1",)
    assert state.failed == ("vllm@a-1.service",)
    assert state.elsewhere == {"b-1"}


def test_a_release_that_is_to_come_is_the_seats_own(tmp_path):
    """A dry run looks for its unit before there is a file of it."""

    def known(root, release=""):
        script = ["sh", "-c", seats_script(str(root), release)]
        said = subprocess.run(script, capture_output=True, text=True, check=False).stdout
        return own_releases(sections(said.splitlines()))

    second = known(tmp_path / "seats/embed", "new-1")
    assert (second("new-1"), second("other-1")) == (True, False)
    assert known(tmp_path)("other-1")
