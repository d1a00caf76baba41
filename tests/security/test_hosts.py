"""A Spark that somebody else has taken over: what it says ends no run of the others.

Hypothesis says what nobody thought of.
"""

from __future__ import annotations

import importlib
import itertools
import json
import pkgutil
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyinfra.api import FactBase
from pyinfra.api.exceptions import FactProcessError

import sparkwright
from host.state.checkup import invocations
from sparkwright.common.hardware import HARDWARE
from sparkwright.common.part import Bounded, Part
from sparkwright.common.placed import NETPLAN
from sparkwright.common.startup import Start, last_starts
from sparkwright.common.terminal import LINE, plain_lines
from sparkwright.engine.state import EngineState, EngineUnit, phase, problem
from sparkwright.insight.doctor.checkup import Checkup, FailedSwitch, Finished, GpuReading, HardDown
from sparkwright.insight.doctor.diagnosis import diagnose
from sparkwright.insight.doctor.report import report as doctor_report
from sparkwright.insight.doctor.report import section
from sparkwright.insight.drift.drift import Running, RunningContainer, spark_differences
from sparkwright.insight.status.state import EngineLoad, Reading, SparkRow, Turn
from sparkwright.insight.status.status import as_json, table, turns, warnings
from sparkwright.machine.firewall.deploy import delete_rule
from sparkwright.machine.firewall.firewall import FirewallState, UfwRule, ssh_rules
from sparkwright.machine.host.survey import Survey
from sparkwright.machine.preflight.preflight import findings
from sparkwright.network.fabric.check import fabric_findings, is_in_force
from sparkwright.network.fabric.link_check import link_findings, slowest, speeds
from sparkwright.network.fabric.netplan import our_netdevs
from sparkwright.network.fabric.state import FabricState, NetplanFile, Reach
from sparkwright.plan.causes.log_causes import from_log
from sparkwright.run import beside, lease
from sparkwright.run.state import SparkState
from tests.clock import patience
from tests.component import command_line
from tests.component.sshd import machines
from tests.makers.fabric import LINK, PLAN, PORT_0, spark
from tests.makers.models import changed
from tests.makers.preflight import NOW, WANTED
from tests.security.hostile import ESCAPES, SPEAKERS, by_ssh


def _parts() -> list[type[Part]]:
    """Return every part that the product reads of a host."""
    for each in pkgutil.walk_packages(sparkwright.__path__, "sparkwright."):
        if not each.name.startswith(("sparkwright.__main__", "sparkwright.verify.test_")):
            importlib.import_module(each.name)
    own = (each for each in Part.__subclasses__() if each.__module__.startswith("sparkwright."))
    return sorted(own, key=lambda part: part.part)


PARTS = _parts()
WORDS = st.sampled_from(
    [
        *("0", "-1", "9" * 30, "1e999", "nan", "", " ", "x", "[" * 2000, '{"a":' * 2000),
        *("active", "enabled", "done", "file", "folder", "../../etc/passwd", "-- cursor: x"),
        ESCAPES,
    ]
)
NUMBERS = st.sampled_from([0, -1, 2**63, 10**400, 1e308]) | st.integers() | st.floats()
JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | WORDS | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.part)
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_no_part_of_a_host_ends_the_run_of_the_others(
    part: type[Part], data: st.DataObject
) -> None:
    """pyinfra takes FactProcessError for the host's failure, all else for the end of the run."""
    fields = {name: data.draw(JSON) for name in part.model_fields if data.draw(st.booleans())}
    value = data.draw(st.just(fields) | JSON)
    line = data.draw(st.sampled_from([json.dumps({"known": value}), json.dumps(value), ESCAPES]))
    fact = SparkState()
    fact.command([part.ask()])
    said = ""
    try:
        fact.process(data.draw(st.sampled_from([[line], [line], [], [line, line]])))
    except FactProcessError as error:
        said = str(error)
    assert said.isprintable()
    assert len(said) < 700


class _Channel:
    """A channel on which a Spark says one byte after the other."""

    def __init__(self, said: bytes, left: int = 100_000) -> None:
        self.said, self.left = said, left

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: self

    def recv(self, size: int) -> bytes:
        self.left -= 1
        assert self.left
        return self.said


@pytest.mark.parametrize(("said", "found"), [(b"x", "x" * 4096), (b"\xff\nrest", "\ufffd")])
def test_what_a_spark_says_of_its_lock_is_one_short_line(said: bytes, found: str) -> None:
    assert beside.Remote(_Channel(said), "", 60).read_line() == found  # type: ignore[arg-type]


@pytest.mark.parametrize("call", ["read_line", "end"])
def test_a_spark_has_so_long_to_speak_of_its_lock_in_all(
    monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(beside, "time", SimpleNamespace(monotonic=itertools.count().__next__))
    channel = _Channel(b"x")
    channel.settimeout = waits.append
    channel.recv_stderr = channel.recv
    channel.status_event = SimpleNamespace(wait=waits.append)
    getattr(beside.Remote(channel, "", lease.ANSWER), call)()  # type: ignore[arg-type]
    assert waits[:4] == [lease.ANSWER, lease.ANSWER - 1, lease.ANSWER - 2, lease.ANSWER - 3]


def test_every_part_is_read_in_the_one_way() -> None:
    """By the program of files/host/state: the product has no other fact of pyinfra's."""
    assert len(PARTS) > 20
    facts = FactBase.__subclasses__()
    ours = [each for each in facts if each.__module__.startswith("sparkwright.")]
    assert ours == [SparkState]


# What a fact can return: anything of its type, within the bounds that are checked.
st.register_type_strategy(int, st.integers(-(2**63) + 1, 2**63 - 1) | st.integers(0, 3))
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
st.register_type_strategy(
    str,
    st.sampled_from(["x", "active", "failed", "", "\u00b2", NETPLAN, *PORT_0, *PLAN.peer_addresses])
    | st.text(max_size=6),
)
NETPLANS = st.sampled_from(
    [
        *("", "[" * 2000, "network: [", "x: 2026-99-99", "a: &a [1]\nb: *a", "network: 1"),
        "network: {ethernets: {enp1s0f0np0: {match: 3}}}",
        "network: {ethernets: {1: {match: {name: [a]}}}, bonds: {b: {interfaces: [{}]}}}",
    ]
)
M = TypeVar("M", bound=Bounded)
FILES = st.builds(
    NetplanFile, st.sampled_from([NETPLAN, "/etc/netplan/a.yaml"]), st.text(), NETPLANS
)


def _part(model: type[M]) -> st.SearchStrategy[M]:
    """Any part that a host may say."""
    fields = {name: st.from_type(each.annotation) for name, each in model.model_fields.items()}  # type: ignore[arg-type]
    return st.builds(model, **fields)


FABRICS = _part(FabricState) | st.builds(
    lambda files, reach: changed(spark(), netplan=tuple(files), reach=reach),
    st.lists(FILES, max_size=3),
    st.from_type(dict[str, Reach]),
)


# The nested before those that they are in.
for _model in (
    GpuReading,
    HardDown,
    EngineUnit,
    EngineLoad,
    Finished,
    FailedSwitch,
    RunningContainer,
    Start,
    Turn,
):
    st.register_type_strategy(_model, _part(_model))


def _of_fabrics(own: FabricState, peer: FabricState) -> None:
    list(fabric_findings(PLAN, HARDWARE["gb10"], {"spark-a": own, "spark-b": peer}))
    is_in_force(PLAN, (PORT_0,), own)
    our_netdevs(own)
    list(link_findings(LINK, (PORT_0, PORT_0), own, peer, {}))
    slowest(dict(speeds(own)))


def _of_reading(reading: Reading) -> None:
    row = SparkRow("a", "r", "recipe", 0, reading)
    table([row])
    as_json([row], 1.0)
    list(warnings(row))
    turns(SparkRow("a", "r", "recipe", 0, reading, on_demand=True))
    last_starts(reading.starts)


def _of_checkup(checkup: Checkup) -> None:
    list(doctor_report(checkup, diagnose(checkup, [], "x"), "recipe"))
    idle = SimpleNamespace(hardware_class="gb10", recipe=None, recipe_name=None)
    text = "\n".join(section("spark1", idle, checkup, diagnose(checkup)))  # type: ignore[arg-type]
    assert plain_lines(text) == text


JUDGES: dict[str, tuple[Any, Callable[..., Any]]] = {
    "status": (_part(Reading), _of_reading),
    "doctor": (_part(Checkup), _of_checkup),
    "drift": (_part(Running), lambda found: list(spark_differences(found, (), 2000))),
    "engine": (_part(EngineState), lambda found: problem(found, ["x"])),
    "preflight": (_part(Survey), lambda found: [*findings(found, WANTED, NOW, found)]),
    "fabric": (FABRICS, lambda found: _of_fabrics(found, spark(2))),
    "the peer's fabric": (FABRICS, lambda found: _of_fabrics(spark(), found)),
    "firewall": (_part(FirewallState), ssh_rules),
}


@pytest.mark.parametrize("name", JUDGES)
@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_whatever_a_host_says_can_be_judged(name: str, data: st.DataObject) -> None:
    """What is made of facts runs for all hosts at once: it may not raise for one of them."""
    strategy, judge = JUDGES[name]
    judge(data.draw(strategy))


def test_a_host_that_never_stops_talking_fails_alone(tmp_path: Path) -> None:
    """By SSH. What is no UTF-8 is marked: pyinfra leaves out the rest of what was said."""
    with machines(tmp_path, "endless", "brief") as sparks:
        inventory = by_ssh(tmp_path, sparks)
        words = ("-y", "--fail-percent", "100")
        _, said = command_line.run(tmp_path, *words, inventory=inventory, deploy=SPEAKERS)
    assert "Traceback" not in said
    assert re.search(r"\[endless\] .*could not load fact", said)
    assert 'brief said ["a\\ufffdb", "last"]' in said
    assert "it says more than 65,536 bytes: the rest was not read" in said


@pytest.mark.parametrize(
    "word", ["ValueError: ", "NCCL ", "a", "Cuda failure ", "Error: is not a "]
)
def test_a_log_takes_a_bounded_time(word: str) -> None:
    """A container writes what it likes, and a pattern may look at each of its words many times."""
    text = f"1763683200.1 spark-a vllm[1]: {word * 200_000}"[: 1 << 20]
    log = invocations([text] * 20, (), None)
    assert max(map(len, log)) <= LINE
    began = time.process_time()
    from_log(log)
    phase(log)
    assert time.process_time() - began < patience(10)


@pytest.mark.parametrize(
    "hostile", ["x; TOUCH; $(TOUCH) `TOUCH`", "x'; TOUCH; : '", 'x"; TOUCH; : "']
)
def test_what_a_host_said_is_quoted_in_commands(tmp_path: Path, hostile: str) -> None:
    """A rule comes from ufw."""
    hostile = hostile.replace("TOUCH", f"touch {tmp_path}/owned")
    _sh(tmp_path, str(delete_rule(UfwRule(hostile, "door"))))
    assert not (tmp_path / "owned").exists()
    quote = hostile[1] if hostile[1] in "'\"" else ""
    _sh(tmp_path, f"echo {quote}{hostile}{quote}")
    assert (tmp_path / "owned").exists()


def _sh(folder: Path, command: str) -> None:
    """Run a command where there is no program but the one that shows an attack."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    if not (programs / "touch").exists():
        (programs / "touch").symlink_to(str(shutil.which("touch")))
    environment = {"PATH": str(programs)}
    subprocess.run(["/bin/sh", "-c", command], env=environment, capture_output=True, check=False)
