"""How the processes of a pair's engine wait for each other: our plugin of vLLM."""

import os
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from sparkwright.common.paths import PLUGIN
from sparkwright.plan.release.command import Ranks, container_arguments, environment
from sparkwright.plan.release.release import Release
from tests.makers.release import pair, recipe, release
from tests.makers.shell import program
from tests.programs import ended

VARIABLE = "SPARKWRIGHT_SPIN_SECONDS"
QUEUES = "vllm.distributed.device_communicators.shm_broadcast"
TWO = Ranks(("a", "b"), (("192.168.100.11", ""), ("192.168.100.12", "")))


def stock() -> Any:
    """Return the reader of vLLM 0.18 to 0.33, as far as it waits: it notes how long it sleeps."""

    class SpinCondition:
        def __init__(self, is_reader: bool, busy_loop_s: float = 1) -> None:
            self.busy_loop_s = busy_loop_s
            self.last_read = 100.0
            self.slept: list[int | None] = []

        def wait(self, timeout_ms: int | None = None) -> None:
            self.slept.append(timeout_ms)

    return SpinCondition


def configurable() -> Any:
    """Return vllm-project/vllm#52814's."""

    class SpinCondition(stock()):  # type: ignore[misc]
        def __init__(self, is_reader: bool, busy_loop_s: float | None = None) -> None:
            super().__init__(is_reader, busy_loop_s or 0.5)

    return SpinCondition


def other() -> Any:
    """Return one whose wait takes something else as well."""

    class SpinCondition(stock()):  # type: ignore[misc]
        def wait(self, timeout_ms: int | None = None, spins: int = 3) -> None:
            self.slept.append(timeout_ms)

    return SpinCondition


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.delitem(sys.modules, "sparkwright_wait", raising=False)
    (entry,) = (
        each
        for each in metadata.entry_points(group="vllm.general_plugins")
        if each.name == "sparkwright_wait"
    )
    module = sys.modules[entry.load().__module__]
    assert entry.load() is module.register
    return module


def vllm(monkeypatch: pytest.MonkeyPatch, condition: Any) -> Any:
    """Have a vLLM whose queues wait by a class; None: by none of that name."""
    queues = SimpleNamespace(**({"SpinCondition": condition} if condition else {}))
    monkeypatch.setitem(sys.modules, QUEUES, queues)  # type: ignore[arg-type]
    return condition


@pytest.mark.parametrize(("given", "looks"), [(None, 0.0005), ("0.25", 0.25), ("1", 1.0)])
def test_a_reader_looks_then_naps_and_then_sleeps_as_by_itself(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch, given: str | None, looks: float
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if given:
        monkeypatch.setenv(VARIABLE, given)
    condition, naps = vllm(monkeypatch, stock()), list[float]()
    plugin.register()
    plugin.register()
    now = [0.0]
    monkeypatch.setattr(plugin.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(plugin.time, "sleep", naps.append)
    reader = condition(True)
    for since in (0, looks / 2, 1.1):
        now[0] = reader.last_read + since
        reader.wait(timeout_ms=7)
    reader.wait()
    assert (reader.slept, naps) == ([7, 7, 7, None], [])
    now[0] = reader.last_read + 0.9
    reader.wait(timeout_ms=7)
    assert naps == ([] if given == "1" else [0.0001])
    # One that is made to look for less, or not at all, sleeps as it would.
    condition(True, 0).wait()
    assert len(naps) == (given != "1")


@pytest.mark.parametrize("condition", [configurable(), other()])
def test_a_vllm_that_knows_better_stays_as_it_is(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch, condition: Any
) -> None:
    own = vllm(monkeypatch, condition)
    before = own.wait
    plugin.register()
    assert own.wait is before


@pytest.mark.parametrize(
    ("condition", "seconds", "why"),
    [
        (None, "0.0005", "SpinCondition"),
        (stock(), "soon", "soon"),
        ("none", "0.0005", "No module named 'vllm'"),
    ],
)
def test_whatever_is_wrong_the_engine_starts(
    plugin: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    condition: Any,
    seconds: str,
    why: str,
) -> None:
    monkeypatch.setenv(VARIABLE, seconds)
    own = vllm(monkeypatch, condition) if condition != "none" else None
    plugin.register()
    assert own is None or own.wait.__name__ == "wait"
    said = capsys.readouterr().err
    assert "vLLM waits as it does by itself (" in said
    assert why in said


@pytest.mark.parametrize(
    ("version", "own", "expected"),
    [
        ("0.28.0", {}, {VARIABLE: "0.0005"}),
        ("0.28.0", {VARIABLE: "1"}, {VARIABLE: "1"}),
        ("0.18.0", {}, {VARIABLE: "0.0005"}),
        ("a build of April", {}, {VARIABLE: "0.0005"}),
        ("0.17.0", {}, {"VLLM_SLEEP_WHEN_IDLE": "1"}),
        ("0.17.0", {"VLLM_SLEEP_WHEN_IDLE": "0"}, {"VLLM_SLEEP_WHEN_IDLE": "0"}),
    ],
)
def test_each_vllm_has_its_means_and_the_recipe_the_last_word(
    version: str, own: dict[str, str], expected: dict[str, str]
) -> None:
    judged = {} if version[0].isdigit() else {"judged_by": "0.20.2"}
    served = recipe(vllm=version, env=own, **judged)
    names = {VARIABLE, "VLLM_SLEEP_WHEN_IDLE"}
    assert {k: v for k, v in environment(served, 2).items() if k in names} == expected
    assert not names & environment(recipe(vllm=version, **judged)).keys()


@pytest.mark.parametrize("made", [pair(0), release()], ids=["pair", "alone"])
def test_an_engine_has_the_plugins(made: Release) -> None:
    assert made.directories == ["bin", "plugin", "plugin/sparkwright_wait-1.dist-info"]
    assert {name for name in made.files if name.startswith("plugin/")} == {
        "plugin/sparkwright_standby.py",
        "plugin/sparkwright_wait.py",
        "plugin/sparkwright_wait-1.dist-info/METADATA",
        "plugin/sparkwright_wait-1.dist-info/entry_points.txt",
    }
    assert f"/releases/{made.id}/plugin:/run/plugin:ro" in made.files["run"]


@pytest.mark.parametrize(
    ("before", "after"), [(None, "/run/plugin"), ("/opt/own:/x y", "/run/plugin:/opt/own:/x y")]
)
def test_what_an_image_has_on_its_path_stays(
    tmp_path: Path, before: str | None, after: str
) -> None:
    program(tmp_path / "vllm", 'umask\nprintf "%s\\n" "$PYTHONPATH" "$1" "$2"')
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"} | ({"PYTHONPATH": before} if before else {})
    done = ended(["/bin/sh", *container_arguments(recipe(), TWO)], env=env)
    assert done.stdout.splitlines() == ["0000", after, "serve", "/models/model"]
