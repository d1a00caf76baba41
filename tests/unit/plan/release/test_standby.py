"""The standby: how a release makes one, where there is room for it, and how it waits in vLLM."""

import json
import os
import sys
import time
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from host.common import starts
from host.engine import standby as supervisor
from sparkwright.common.hardware import GIB, HARDWARE
from sparkwright.common.paths import PLUGIN
from sparkwright.declared.recipe import values
from sparkwright.plan.memory.beside import kv_budget, standby_room
from sparkwright.plan.memory.check import judge
from sparkwright.plan.memory.plan import LEAST, STANDBY, WANTED, load_of
from sparkwright.plan.release.command import container_arguments
from sparkwright.run.spark import SparkTarget
from tests.makers.memory import load, planned
from tests.makers.release import ALONE, lock, pair, recipe, release
from tests.makers.shell import program, shell
from tests.programs import ended

CHOICE = "qwen3.6-35b-nvfp4-dflash"
WORKERS = "vllm.v1.worker.worker_base"


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The plugin as Python loads it for vLLM, with folders of its own."""
    monkeypatch.syspath_prepend(str(PLUGIN))
    monkeypatch.delitem(sys.modules, "sparkwright_standby", raising=False)
    module = import_module("sparkwright_standby")
    for name in ("ALIVE", "GO", "WAITING", "_OWN"):
        monkeypatch.setattr(module, name, tmp_path / name.lower())
    monkeypatch.setattr(module, "gc", SimpleNamespace(freeze=list))
    module._OWN.write_text("500")
    module.ALIVE.touch()
    monkeypatch.setenv(values.STANDBY, "standby")
    return module


def naps(monkeypatch: pytest.MonkeyPatch, plugin: ModuleType, each: Callable[[], None]) -> None:
    """Have time pass only as the plugin naps, and something happen in each nap."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds
        each()

    monkeypatch.setattr(plugin, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))


def vllm(monkeypatch: pytest.MonkeyPatch, **has: object) -> Any:
    wrapper = type("WorkerWrapperBase", (), has)
    monkeypatch.setitem(sys.modules, WORKERS, SimpleNamespace(WorkerWrapperBase=wrapper))  # type: ignore[arg-type]
    return wrapper


def test_the_names_are_the_same_on_both_sides(plugin: ModuleType) -> None:
    assert plugin.VARIABLE == values.STANDBY == supervisor.VARIABLE
    assert starts.KV_CACHE == values.KV_CACHE
    assert plugin.FORGOTTEN == supervisor.FORGOTTEN
    assert values.STANDBY in values.OWN_ENVIRONMENT
    entries = (PLUGIN / "sparkwright_wait-1.dist-info/entry_points.txt").read_text()
    assert "\nsparkwright_standby = sparkwright_standby:register\n" in entries


def test_there_is_one_at_a_time(tmp_path: Path) -> None:
    own = supervisor.Standby(tmp_path, "new", {"standby": 1})
    sign = tmp_path / "state/standby@old/alive"
    sign.parent.mkdir(parents=True)
    assert own.fits
    sign.touch()
    assert not own.fits
    # Nobody has given a sign for long, the clock was wrong, or a switch has just removed it.
    for seconds in (-1, 1):
        at = time.time() + seconds * supervisor.FORGOTTEN * 2
        os.utime(sign, (at, at))
        assert own.fits
    sign.unlink()
    sign.symlink_to("gone")
    assert own.fits


def test_it_waits_before_the_gpu_is_used_and_goes_on_at_the_word(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []

    def use(self: object, *words: str) -> str:
        seen.append((plugin.WAITING.exists(), plugin._OWN.read_text()))
        return " ".join(words)

    def each() -> None:
        seen.append((plugin.WAITING.exists(), plugin._OWN.read_text()))
        if len(seen) == 3:
            plugin.GO.touch()

    naps(monkeypatch, plugin, each)
    wrapper = vllm(monkeypatch, init_device=use)
    plugin.register()
    assert wrapper().init_device("a", "b") == "a b"
    assert seen == [(True, "900")] * 3 + [(False, "500")]


class Made:
    """vLLM's modules around a start, which write down what is asked of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[object] = []

        class InputProcessor:
            def __init__(this, config: str, renderer: object) -> None:
                self.asked.append(config)
                this.renderer = renderer

        class Renderer:
            def warmup(this, parameters: str) -> None:
                self.asked.append(parameters)
                this._warmup_mm_processor()

            def _warmup_mm_processor(this) -> None:
                self.asked.append("images")

        self.inputs, self.renderer = InputProcessor, Renderer
        for name, has in {
            "model_executor.model_loader": {"get_model_architecture": self.asked.append},
            "multimodal": {"MULTIMODAL_REGISTRY": "registry"},
            "multimodal.encoder_budget": {
                "MultiModalBudget": lambda *each: self.asked.append(each)
            },
            "v1.engine.input_processor": {"InputProcessor": InputProcessor},
            "renderers": {"ChatParams": lambda: "template"},
        }.items():
            monkeypatch.setitem(sys.modules, f"vllm.{name}", SimpleNamespace(**has))  # type: ignore[arg-type]
        backend = SimpleNamespace(get_class=lambda: self.asked.append("attention"))
        self.config = SimpleNamespace(
            model_config="model", attention_config=SimpleNamespace(backend=backend)
        )


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    return Made(monkeypatch)


@pytest.mark.parametrize("has_backend", [True, False])
def test_before_it_waits_it_does_what_needs_no_gpu(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch, made: Made, has_backend: bool
) -> None:
    if not has_backend:  # vLLM chooses it
        made.config.attention_config.backend = None
    wrapper = vllm(monkeypatch, vllm_config=made.config, init_device=lambda _: None)
    plugin.register()
    monkeypatch.setattr(plugin, "wait", lambda: made.asked.append("waits"))
    wrapper().init_device()
    chosen = ["attention"] if has_backend else []
    assert made.asked == ["model", *chosen, (made.config, "registry"), "waits"]


@pytest.mark.parametrize("lacks", ["multimodal.encoder_budget", "model_executor.model_loader"])
def test_what_a_vllm_does_not_have_comes_after_the_word(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch, made: Made, lacks: str
) -> None:
    monkeypatch.setitem(sys.modules, f"vllm.{lacks}", None)  # type: ignore[arg-type]
    plugin.GO.touch()
    wrapper = vllm(monkeypatch, vllm_config=made.config, init_device=lambda _: "used")
    plugin.register()
    assert wrapper().init_device() == "used"


def test_its_api_is_warm_before_it_has_an_engine(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch, made: Made
) -> None:
    vllm(monkeypatch, init_device=len)
    plugin.register()
    renderer = made.inputs("config", made.renderer()).renderer
    assert made.asked == ["config", "template", "images"]
    renderer.warmup("its own template")
    assert made.asked[3:] == ["its own template"]


@pytest.mark.parametrize("lacks", ["v1.engine.input_processor", "renderers", "renderer"])
def test_an_api_that_warms_up_in_another_way_does_so_itself(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch, made: Made, lacks: str
) -> None:
    monkeypatch.setitem(sys.modules, f"vllm.{lacks}", None)  # type: ignore[arg-type]
    vllm(monkeypatch, init_device=len)
    plugin.register()
    renderer = None if lacks == "renderer" else made.renderer()
    assert made.inputs("config", renderer).renderer is renderer
    assert made.asked == ["config"]


def test_the_engine_itself_does_not_wait(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen: list[str] = []
    monkeypatch.setattr(plugin.gc, "freeze", lambda: frozen.append("imports"))
    monkeypatch.delenv(values.STANDBY)
    wrapper = vllm(monkeypatch, init_device=len)
    plugin.register()
    assert wrapper.init_device is len
    assert frozen == ["imports"]


@pytest.mark.parametrize("has", [{}, None])
def test_a_vllm_with_another_way_to_the_gpu_ends(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch, has: dict[str, object] | None
) -> None:
    """A standby that does not wait would take the memory of the engine that serves."""
    if has is not None:
        vllm(monkeypatch, **has)
    with pytest.raises((AttributeError, ModuleNotFoundError)):
        plugin.register()


@pytest.mark.parametrize("until", [0, 1200])
def test_it_ends_once_nobody_gives_a_sign(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch, until: float
) -> None:
    def each() -> None:
        now = plugin.time.monotonic()
        if now < until:
            os.utime(plugin.ALIVE, (now, now))

    naps(monkeypatch, plugin, each)
    with pytest.raises(SystemExit, match="its supervisor has forgotten it"):
        plugin.wait()
    assert plugin.time.monotonic() == pytest.approx(until + plugin.FORGOTTEN, abs=1)
    # By its end it has not heeded the word, which its supervisor may be saying.
    assert plugin.WAITING.exists()


def test_it_ends_at_once_where_its_sign_is_removed(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    naps(monkeypatch, plugin, plugin.ALIVE.unlink)
    with pytest.raises(SystemExit, match="its supervisor has forgotten it"):
        plugin.wait()
    assert plugin.time.monotonic() == pytest.approx(plugin.NAP)


def test_a_score_that_cannot_be_set_keeps_nothing_from_going_on(
    plugin: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin, "_OWN", plugin.GO.parent)
    plugin.GO.touch()
    plugin.wait()


def run(tmp_path: Path, script: str, **environment: str) -> list[str]:
    """Return the words that the `run` of a release gives Docker."""
    program(
        tmp_path / "docker",
        'case "$1" in image) echo sha256:12 ;; *) for word; do echo "$word"; done ;; esac',
    )
    for name in ("id", "chown"):
        program(tmp_path / name, "echo 7")
    return shell(script, tmp_path, **environment).stdout.splitlines()


@pytest.mark.parametrize("made", [release(root="ROOT"), pair(1)])
def test_a_release_runs_as_the_engine_or_as_a_standby(tmp_path: Path, made: Any) -> None:
    root = str(tmp_path / "root")
    script = made.files["run"].replace(made.root, root)
    sockets = Path(root, "sockets/engines", made.id)
    sockets.mkdir(parents=True)
    both = (sockets / "api.sock", sockets / "standby.sock")
    for path in both:
        path.touch()
    waits = run(tmp_path, script, **{values.STANDBY: "standby"})
    assert [path.exists() for path in both] == [True, False]
    serves = run(tmp_path, script)
    assert [path.exists() for path in both] == [False, False]
    word = ["--volume", f"{root}/state/standby@{made.id}:/run/standby:ro"]
    assert [each for each in waits if each not in serves] == [f"vllm-{made.id}-standby", word[1]]
    assert [each for each in serves if each not in waits] == [f"vllm-{made.id}"]
    assert "" not in serves
    passed = [word for before, word in pairwise(waits) if before == "--env"]
    assert {values.STANDBY, values.KV_CACHE} <= {*passed}
    assert f"{root}/sockets/engines/{made.id}:/run/vllm" in serves


@pytest.mark.parametrize(
    ("given", "socket", "plugins"),
    [
        ({}, [], "-"),
        ({values.STANDBY: "standby"}, ["--uds", "/run/vllm/standby.sock"], "-"),
        ({values.KV_CACHE: "7"}, ["--kv-cache-memory-bytes", "7"], "-"),
        ({"VLLM_PLUGINS": "a"}, [], "a,sparkwright_standby"),
        ({"VLLM_PLUGINS": ""}, [], ",sparkwright_standby"),
    ],
)
def test_its_socket_and_its_plugin(
    tmp_path: Path, given: dict[str, str], socket: list[str], plugins: str
) -> None:
    program(tmp_path / "vllm", 'for word; do echo "$word"; done; echo "${VLLM_PLUGINS--}"')
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"} | given
    arguments = container_arguments(recipe(), ALONE)
    said = ended(["/bin/sh", *arguments], env=env).stdout.splitlines()
    assert said == [*arguments[3:], *socket, plugins]


def test_a_worker_has_no_socket_of_its_own() -> None:
    assert "standby.sock" in container_arguments(recipe(), ALONE)[1]
    worker = pair(1).files["run"].partition("exec ")[2]
    assert "standby.sock" not in worker
    # It measures, or does not, as its head.
    assert f"${values.KV_CACHE}" in worker


@pytest.mark.parametrize(
    ("data", "room"),
    [
        ({}, STANDBY),
        ({"standby": "never"}, 0),
        ({"on_demand": True}, 0),
        ({"replicas": ["x", "y"]}, 0),
    ],
)
def test_the_setting_and_a_second_replica_decide(
    monkeypatch: pytest.MonkeyPatch, data: dict[str, object], room: int
) -> None:
    monkeypatch.setattr("sparkwright.run.spark.recipe_of", lambda name: recipe())
    known = {"recipe": "try", "ranks": ["a"], "rank": 0, "hardware": "lab"}
    made = SparkTarget.of(known | data).release_by(lock())
    assert made
    assert json.loads(made.files["unit.json"])["standby"] == room


def test_there_is_one_where_the_plan_has_room_and_it_is_no_reason_to_warn() -> None:
    spark, card = HARDWARE["gb10"], HARDWARE["rtx-5090"]
    plan = planned(CHOICE)
    assert plan.standby == STANDBY
    assert plan.head_room < WANTED[1] * GIB <= plan.head_room + STANDBY
    assert not [*judge(plan)]
    assert standby_room(load(CHOICE), spark) == STANDBY + LEAST[1] * GIB
    full = planned(CHOICE, gpu_memory_utilization=0.86)
    assert (full.standby, standby_room(load(CHOICE, gpu_memory_utilization=0.86), spark)) == (0, 0)
    assert full.head_room - STANDBY < (WANTED[1] - 1) * GIB <= plan.head_room
    # A card's own memory is none of it.
    assert planned("qwen3.5-35b-nvfp4-rtx-pro-6000").standby == 0
    assert standby_room(load("qwen3.5-35b-nvfp4-rtx-5090"), card) == STANDBY + LEAST[1] * GIB


def test_a_start_is_told_its_kv_cache_within_the_plan_where_that_spares_something() -> None:
    spark, lab, fits = HARDWARE["gb10"], HARDWARE["lab"], "qwen3.6-35b-nvidia"
    plan = planned(fits)
    budget = kv_budget(load(fits), spark)
    # Real ones were up to 8.3 % larger than planned: plan/memory/check.py.
    assert 1.083 * plan.kv_bytes < budget < plan.engine - plan.weights + 1
    refused = (
        kv_budget(load(fits, kv_cache_memory_bytes="8G"), spark),
        kv_budget(load(fits, num_gpu_blocks_override=100), spark),
        # It compiles anew for another number.
        kv_budget(load(fits, "0.24.0"), spark),
        # Nothing is planned there.
        kv_budget(load(fits), lab),
    )
    assert refused == (0, 0, 0, 0)
    assert kv_budget(load(fits, "0.27.1"), spark)


@pytest.mark.parametrize("replicas", [[], ["x", "y"]])
def test_the_release_knows_how_much_its_kv_cache_may_be(
    monkeypatch: pytest.MonkeyPatch, replicas: list[str]
) -> None:
    """Beside another engine the plan gives each its own."""
    monkeypatch.setattr("sparkwright.run.spark.recipe_of", lambda name: recipe())
    monkeypatch.setattr("sparkwright.run.spark.kv_budget", lambda load, hardware: 7)
    known = {"recipe": "try", "ranks": ["a"], "rank": 0, "hardware": "lab", "replicas": replicas}
    made = SparkTarget.of(known).release_by(lock())
    assert made
    assert json.loads(made.files["unit.json"])["kv_cache"] == (0 if replicas else 7)


def test_copies_have_none() -> None:
    lab = HARDWARE["lab"]
    rooms = [
        standby_room(load_of(recipe(sparks=[4], args=args), lock(), 4), lab)
        for args in ({}, {"data-parallel-size": 2})
    ]
    assert rooms == [STANDBY, 0]
