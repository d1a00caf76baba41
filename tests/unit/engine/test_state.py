"""The state of the engines, whether one serves as declared, and how one starts."""

import json
from pathlib import Path
from typing import Any

import pytest

from host.state import engines, machine
from host.state import readers as host_readers
from sparkwright.declared.recipe.questions import example, shortest
from sparkwright.engine.state import EngineState, phase, problem
from sparkwright.engine.switch import MemoryState, SwitchState
from sparkwright.upkeep.rollback.deploy import History
from tests.makers.engine import NEW, SETTLED, state_of
from tests.makers.shell import program

SHOWN = """\
Id=vllm@tiny-1.service
ActiveState=active
NRestarts=2
NeedDaemonReload=no
Job=
StatusText=serving tiny
ActiveEnterTimestamp=@1700000000

Id=vllm@old-1.service
ActiveState=failed
NRestarts=0
NeedDaemonReload=yes
Job=684
StatusText=
ActiveEnterTimestamp=

Id=switch@new-1.service
ActiveState=activating

Id=switch@second-1.service
ActiveState=failed
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root folder of a Spark whose systemd and GPU are scripts, and whose engine answers."""
    monkeypatch.setattr(host_readers, "_ENVIRONMENT", {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"})
    monkeypatch.setattr(engines, "_SYSTEMD", str(tmp_path / "systemd"))
    monkeypatch.setattr(engines, "_units", engines._units.__wrapped__)  # type: ignore[attr-defined]
    (tmp_path / "bin").mkdir()
    (tmp_path / "shown").write_text(SHOWN)
    program(tmp_path / "bin/systemctl", f"cat {tmp_path}/shown")
    wants = tmp_path / "systemd/multi-user.target.wants"
    wants.mkdir(parents=True)
    (wants / "vllm@tiny-1.service").touch()
    root = tmp_path / "r"
    for path, text in {
        "releases/second-1/unit.json": '{"seat": "embed"}',
        "releases/tiny-1/unit.json": "{}",
        "door/choice.map": "first tiny-1\nhold no\n",
        "state/history": "1 old-1\n2 tiny-1\n",
        "seats/embed/manifests/switch@second-1.json": '{"engine": 7}',
        "manifests/switch@tiny-1.json": '{"engine": 5}',
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "current").symlink_to("releases/tiny-1")
    (root / "seats/embed/releases").symlink_to("../../releases")
    (root / "seats/embed/current").symlink_to("releases/second-1")
    return root


def read(root: Path, **asked: Any) -> EngineState:
    return state_of(engines.read(str(root), **asked))


def test_units_and_answers_are_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {
        "/v1/models": '{"data": [{"id": "tiny"}, {"id": "small"}]}',
        "/v1/embeddings": ' {"data": []}\n',
    }
    monkeypatch.setattr(engines, "ask", lambda place, release, path, *_: answers[path])
    state = read(root, release="tiny-1", path="/v1/embeddings", body={})
    assert state.current == state.preferred == "tiny-1"
    running, old = state.units["tiny-1"], state.units["old-1"]
    assert (running.active, running.enabled, running.restarts) == ("active", True, 2)
    assert (running.outdated, running.starting, running.since) == (False, False, 1700000000)
    assert (running.status, old.status) == ("serving tiny", "")
    assert (old.active, old.enabled, old.outdated, old.since) == ("failed", False, True, 0)
    assert old.starting
    assert (state.switches, state.failed) == (("new-1",), ("vllm@old-1.service",))
    assert (state.models, state.completion) == (("tiny", "small"), '{"data": []}')
    answers["/v1/models"] = "[]"
    assert read(root, release="tiny-1", path="/v1/embeddings").models == ()
    (root / "door/choice.map").write_text("first tiny-1\nhold yes\n")
    unasked = read(root, release="old-1", path="/v1/models")
    assert (unasked.preferred, unasked.models, unasked.completion) == (None, None, None)


def test_a_spark_on_which_nothing_is_set_up(tmp_path: Path, root: Path) -> None:
    program(tmp_path / "bin/systemctl", "exit 1")
    state = read(tmp_path / "none", release="new-1")
    assert (state.current, state.units, state.switches, state.shares) == (None, {}, (), False)
    told = History.model_validate_json(json.dumps(engines.history(str(tmp_path / "none"))))
    assert (told.served, told.current, told.installed) == ((), None, {})


def test_the_engines_of_two_replicas_are_told_apart(root: Path) -> None:
    second = read(root / "seats/embed")
    assert (second.current, second.units, second.switches) == ("second-1", {}, ())
    assert second.failed == ("switch@second-1.service",)
    # A dry run looks for its unit before there is a file of it.
    shown = SHOWN.replace("old-1", "new-1")
    (root.parent / "shown").write_text(shown)
    assert list(read(root / "seats/embed", release="new-1").units) == ["new-1"]
    assert "new-1" in read(root).units


def test_a_history_is_read(root: Path) -> None:
    (root / "releases/tiny-1/unit.json").write_text('{"sparks": ["a", "b", "c", "d"]}')
    told = History.model_validate_json(json.dumps(engines.history(str(root))))
    assert (told.served, told.current) == (("old-1", "tiny-1"), "tiny-1")
    assert told.installed == {"second-1": 0, "tiny-1": 4}
    assert told.under_way == ("new-1",)
    assert engines.history(str(root / "seats/embed"))["under_way"] == []


def test_memory_is_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"MemTotal": 9 << 30, "MemAvailable": 8 << 30, "CmaFree": 1 << 30, "CmaTotal": 1 << 20}
    monkeypatch.setattr(machine, "meminfo", lambda: sizes)
    best: dict[str, int] | None = {"memory_free": 3}
    monkeypatch.setattr(machine.gpu, "read", lambda: {"gpu": best})

    def read(release: str = "tiny-1") -> MemoryState:
        told = machine.memory(str(root), release, [f"{root}/seats/embed", f"{root}/seats/none"])
        return MemoryState.model_validate_json(json.dumps(told))

    found = read()
    assert (found.total, found.gpu_free, found.engine) == (9 << 30, 3, 5)
    # The other engine keeps its memory while it is down.
    assert (found.beside, found.reserved) == (7, 7)
    # What the kernel keeps counts as available, and no engine gets it.
    assert found.free == (7 << 30) + (1 << 20)
    sizes["CmaFree"], best = 1 << 28, None
    (root.parent / "shown").write_text(SHOWN.replace("vllm@tiny-1", "vllm@second-1"))
    found = read("other-1")
    assert (found.free, found.gpu_free, found.engine, found.reserved) == (8 << 30, None, None, 0)
    (root / "manifests/switch@tiny-1.json").write_text('{"engine": -1}')
    assert read().engine is None


def test_a_switch_is_read(root: Path) -> None:
    journal = root.parent / "bin/journalctl"
    program(journal, f'echo "$*" >{root}/asked; echo; echo "a line"; echo "-- cursor: s=1;x"')
    program(root.parent / "bin/systemctl", "echo inactive")

    def read(**asked: Any) -> SwitchState:
        told = engines.switch(str(root), "tiny-1", **asked)
        return SwitchState.model_validate_json(json.dumps(told))

    assert read() == SwitchState(ended=True, report=None, cursor=None, lines=())
    found = read(since="@1")
    assert (found.cursor, found.lines) == ("s=1;x", ("a line",))
    read(since="@1", cursor="s=1; touch x")
    asked = (root / "asked").read_text()
    assert asked.endswith("--unit=vllm@tiny-1 --after-cursor=s=1; touch x\n")
    # Of a switch that is told, what the start took that it has made.
    report = {"phase": "done", "began": 5}
    (root / "jobs").mkdir()
    (root / "jobs/switch@tiny-1.json").write_text(json.dumps(report))
    for at, seconds in (("4", "99"), ("6", "60")):
        took = {"at": at, "seconds": seconds, "phases": {}, "release": "tiny-1", "failed": ""}
        with (root / "state/starts").open("a") as file:
            file.write(json.dumps(took | {"recipe": "r", "image": "i", "kind": "warm"}) + "\n")
        told = engines.switch(str(root), "tiny-1")["start"]
        assert (told and told["seconds"]) == (60 if at == "6" else None)
    assert not (root / "x").exists()


STATE = state_of(SETTLED)
MODEL = NEW.recipe.served_names[0]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"models": ("other",)}, f"does not list {MODEL}"),
        ({"models": None}, f"does not list {MODEL}"),
        ({"completion": '{"error": {"message": "boom"}}'}, "boom"),
        ({"completion": "no answer within 60 s"}, "within 60 s"),
        ({"completion": None}, "no answer"),
        ({"completion": '{"usage": {"completion_tokens": 0}}'}, "without a token"),
    ],
)
def test_an_engine_that_does_not_serve(answer: dict[str, Any], reason: str) -> None:
    assert problem(STATE, [*NEW.recipe.models]) is None
    assert reason in (problem(STATE.model_copy(update=answer), [MODEL]) or "")


@pytest.mark.parametrize(
    ("answers", "path", "good"),
    [
        ("embeddings", "/v1/embeddings", '{"data": [{"embedding": [0.5, -1]}]}'),
        ("scores", "/v1/rerank", '{"results": [{"relevance_score": 0.5}]}'),
    ],
)
def test_what_an_engine_answers_is_judged(answers: Any, path: str, good: str) -> None:
    assert shortest(answers, "tiny").path == example(answers, "tiny").path == path

    def judged(answer: str | None) -> str | None:
        return problem(STATE.model_copy(update={"completion": answer}), [MODEL], answers)

    assert judged(good) is None
    for bad in (good.replace("0.5", "NaN"), '{"data": [{"embedding": []}], "results": []}', None):
        assert f"a request of {path} gave: {bad or 'no answer'}" in (judged(bad) or "")
    # A completion proves nothing of it.
    assert problem(STATE, [MODEL], answers)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("INFO 11-20 Starting to load model /models/tiny...", "loading weights"),
        (
            "Loading safetensors checkpoint shards:  44% Completed | 4/9 [00:41<00:50, 10.1s/it]",
            "loading weights 44%",
        ),
        (
            "INFO Model loading took 22.5 GiB memory and 98.1 seconds",
            "weights loaded: 22.5 GiB memory and 98.1 seconds",
        ),
        ("GPU KV cache size: 1,234,567 tokens", "sizing the KV cache: 1,234,567 tokens"),
        ("Capturing CUDA graphs (decode, FULL):  63%|###", "capturing CUDA graphs 63%"),
        ("INFO:     Application startup complete.", "ready"),
        (
            "waiting for spark-b at 192.0.2.2: no answer",
            "waiting for spark-b at 192.0.2.2: no answer",
        ),
        ("something else", None),
    ],
)
def test_what_a_log_says_of_a_start(line: str, text: str | None) -> None:
    assert phase([line]) == text
    # The latest counts.
    before = ["Starting to load model x", "noise"]
    assert phase([*before, line]) == (text or "loading weights")
