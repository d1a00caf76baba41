"""Drift: what is said of a difference, and what runs where no operation looks."""

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from host.state import docker, status
from sparkwright.common.errors import Difference
from sparkwright.common.files import (
    FileState,
    secret_difference,
)
from sparkwright.engine.state import engine_differences
from sparkwright.insight.drift.drift import (
    Running,
    RunningContainer,
    ask_running,
    running_differences,
    spark_differences,
)
from sparkwright.machine.host.survey import Kernel
from sparkwright.plan.release.command import Ranks, container_arguments, environment
from tests.makers.engine import NEW, state_of
from tests.makers.engine import engines as made_engines
from tests.makers.gpu import gpu
from tests.makers.models import changed
from tests.makers.release import release

RELEASE = NEW.id
OTHER = "lab-tiny-99999999"
CONTENT = "87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"


def test_of_a_secret_not_even_a_hash_is_told() -> None:
    state = FileState("file", "root", "root", "600", CONTENT)
    absent = FileState("absent")
    for text, found, told in (
        ("other", state, ("the present content", "another")),
        ("other", replace(state, mode="644"), ("root:root 600", "root:root 644")),
        ("other", absent, ("a file", "nothing")),
        (None, state, ("nothing", "something")),
    ):
        assert secret_difference("/s", text, found) == Difference("/s", *told)
    assert secret_difference("/s", None, absent) is None
    same = replace(state, detail=sha256(b"text").hexdigest(), changed=7)
    assert secret_difference("/s", "text", same) is None


def engines(own: str = "active", other: str = "inactive", **changes: Any) -> dict[str, Any]:
    """Return what is told of a Spark on which both releases are known."""
    serves = dict.fromkeys(("current", "enabled", "first"), RELEASE)
    said = made_engines((RELEASE, own), (OTHER, other), **{**serves, **changes})  # type: ignore[arg-type]
    found = engine_differences(state_of(said), RELEASE, door=True)
    return {each.what: (each.expected, each.found) for each in found}


def test_engines_that_differ() -> None:
    unit, other = f"vllm@{RELEASE}.service", f"vllm@{OTHER}.service"
    assert engines() == {}
    assert engines(current=OTHER) == {"current release": (RELEASE, OTHER)}
    assert engines(current="") == {"current release": (RELEASE, "none")}
    assert engines("failed") == {unit: ("active", "failed")}
    switch = f"switch@{OTHER}.service"
    assert engines(failed=switch) == {switch: ("not failed", "failed")}
    assert engines(other="active") == {other: ("off", "active")}
    boots = {unit: ("enabled", "not enabled"), other: ("off", "inactive and boots")}
    assert engines(enabled=OTHER) == boots
    assert engines(outdated=True).keys() == {unit, other}
    assert engines(switches=OTHER) == {"switch": ("none under way", f"one to {OTHER}")}
    assert engines(first=OTHER) == {"engine behind the door": (RELEASE, OTHER)}
    assert engines(hold="yes") == {"engine behind the door": (RELEASE, "none")}


@pytest.mark.parametrize("active", ["active", "inactive", "activating", "deactivating"])
@pytest.mark.parametrize("hold", ["yes", "no"])
def test_an_engine_that_waits_for_its_turn_does_not_differ(active: str, hold: str) -> None:
    assert on_demand(active, hold=hold) == {}


def test_one_that_requests_start_may_differ_too() -> None:
    unit = f"vllm@{RELEASE}.service"
    assert on_demand("failed") == {unit: ("active", "failed")}
    assert on_demand(enabled=RELEASE) == {unit: ("not enabled", "enabled")}
    assert on_demand(last=OTHER) == {unit: ("the last that served", OTHER)}
    assert on_demand(current=OTHER) == {"current release": (RELEASE, OTHER)}
    assert on_demand(first=OTHER) == {"engine behind the door": (RELEASE, OTHER)}


def on_demand(active: str = "inactive", last: str = RELEASE, **changes: Any) -> dict[str, Any]:
    said = made_engines((RELEASE, active), **{"current": RELEASE, **changes}) | {"last": last}
    found = engine_differences(state_of(said), RELEASE, door=True, on_demand=True)
    return {each.what: (each.expected, each.found) for each in found}


def container(**changes: Any) -> RunningContainer:
    """Return the container of the declared release, but for some of it."""
    served = release()
    variables = [f"{key}={value}" for key, value in environment(served.recipe).items()]
    values = {
        "image": "sha256:aa",
        "arguments": tuple(container_arguments(served.recipe, Ranks())),
        "environment": tuple(variables),
    }
    return RunningContainer(**values | changes)


SOUND = Kernel("7.0.0-1019-nvidia", "root=/dev/sda quiet", 0, pools=False)
RUNS = Running(
    containers={release().id: container()},
    image="sha256:aa",
    held=("vim",),
    kernel=SOUND,
    gpu=gpu(2418.0, 61.42, reasons=1),
    inside="GPU 0: NVIDIA GB10",
)


def running(
    declared: bool = True, limit: int | None = None, **changes: Any
) -> list[tuple[str, str, str]]:
    """Return what is told of a Spark that runs one engine, but for some of it."""
    found, served = changed(RUNS, **changes), [release()] if declared else []
    own = spark_differences(found, [each.id for each in served], limit)
    return [tuple(each) for each in (*own, *running_differences(found, next(iter(served), None)))]


def test_what_runs_otherwise() -> None:
    name, label = release().id, f"container vllm-{release().id}"

    def ours(**changes: Any) -> dict[str, RunningContainer]:
        return {name: container(**changes)}

    assert running() == []
    assert running(containers={}) == []
    assert running(gpu=None, image=None) == []
    assert running(declared=False) == [("release that runs", "none", name)]
    both = running(containers={OTHER: container(), **ours()})
    assert both == [("release that runs", name, OTHER)]
    image = running(containers=ours(image="sha256:bb"))
    assert image == [(f"{label}: image", "sha256:aa", "sha256:bb")]
    for words, found in ((("serve", "--max-model-len", "77"), "77"), ((), "fewer")):
        told = running(containers=ours(arguments=words))
        assert told == [(f"{label}: arguments", "its release's", found)]
    told = running(containers=ours(environment=("PATH=/bin",)))
    assert {each[1:] for each in told} == {("its release's value", "another")}
    assert running(gpu=gpu(2418.0, 61.42, reasons=0x88)) == [
        ("GPU clock", "not held back", "held back by hardware slowdown"),
        ("GPU clock", "not held back", "held back by the power supply (power brake)"),
    ]
    held = ("vim", "ufw-doc", "nvidia-driver-580-open", "linux-nvidia-hwe", "ufw")
    assert running(held=held) == [
        (f"package {name}", "updated with the system", "held back") for name in held[2:]
    ]
    assert running(limit=2200) == [("GPU clock", "at most 2200 MHz", "2418 MHz")]
    for sound in (gpu(208.0, 61.42, 0.0), gpu(None, 61.42), None):
        assert running(limit=2200, gpu=sound) == []
    (kept,) = running(kernel=replace(SOUND, handover=9750528 * 1024))
    assert kept[0] == "kernel 7.0.0-1019-nvidia, booted with `root=/dev/sda quiet`"
    assert kept[1:] == ("no memory kept for kexec handover (kho=off)", "9.3 GiB kept")
    assert running(kernel=replace(SOUND, pools=True)) == [
        ("NVIDIA driver", "EnableSystemMemoryPools 0", "pools that keep memory")
    ]


def test_what_docker_says_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"Labels": {"sparkwright.release": "a-1"}, "Cmd": ["serve"], "Env": ["A=b"]}
    said = {
        "/containers/json": [
            {"Id": "4f6c", "Labels": config["Labels"]},
            {"Id": "77", "Labels": {"sparkwright.release": "gone-1"}},
            {"Id": "99", "Labels": None},
        ],
        "/containers/4f6c/json": {"Image": "sha256:bb", "Config": config},
        "/images/image@sha256:0/json": {"Id": "sha256:aa"},
    }
    monkeypatch.setattr(docker, "get", said.get)
    ask = ask_running("/none", release())
    found = ask.value(json.dumps({"known": status.running("/none", ["old", "image@sha256:0"])}))
    assert found.image == "sha256:aa"
    own = RunningContainer(image="sha256:bb", arguments=("serve",), environment=("A=b",))
    assert found.containers == {"a-1": own}


def test_without_docker_nothing_runs_and_what_runs_hold_is_not_held_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/held").write_text("linux-nvidia\nrunc\n")
    monkeypatch.setattr(docker, "SOCKET", str(tmp_path / "none"))
    monkeypatch.setattr(status, "lines", lambda *_: ["docker-ce", "linux-nvidia"])
    found = status.running(str(tmp_path), ["image"])
    assert found["held"] == ["docker-ce"]
    assert (found["containers"], found["image"], found["inside"]) == ({}, None, "")


def test_a_gpu_that_is_held_back_under_load_or_lost() -> None:
    slow = "612 MHz and 28 W while 97 % busy"
    assert running(gpu=gpu(612.0, 28.1, 97.0)) == [
        ("GPU clock under load", "as high as the load asks", slow)
    ]
    said = "Failed to initialize NVML: Unknown Error"
    assert running(inside=said) == [
        ("GPU in the engine's container", "there", f"nvidia-smi in the container: {said}")
    ]
    assert running(inside="exec: nvidia-smi: not found") == []
