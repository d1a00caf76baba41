"""Rollouts over three virtual Sparks, a replica on each, while clients ask all of them.

The tests build on one another, in order.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.client import said
from tests.e2e.conftest import DEPLOY, PROJECT, background, killed_at, pyinfra
from tests.e2e.load import Load, load
from tests.lab.lab import Lab
from tests.lab.spark import Handle
from tests.lab.state import FLEET

ROLLOUT = "deploys/rollout.py"
QUICK = ("--data", "soak=5", "--data", "trial_seconds=5")
RECIPES = PROJECT / "files/recipes"
TINY = (RECIPES / "lab-tiny.yaml").read_text()
BROKEN = ("  seed: 0", "  no-such-flag: 0")


@pytest.fixture(scope="module")
def sparks(machine: None) -> Iterator[list[Handle]]:
    """Three Sparks that serve, in place of the lab of the modules before."""
    lab = Lab()
    lab.down()
    lab.up(3)
    try:
        pyinfra(DEPLOY).succeeded()
        yield lab.sparks()
    finally:
        lab.down()


@contextmanager
def recipes(*each: tuple[str, str]) -> Iterator[None]:
    """Have the replicas be to serve lab-tiny with a change, one for each; then lab-tiny again."""
    text = FLEET.read_text()
    content = yaml.safe_load(text)
    files: list[Path] = []
    try:
        for (old, new), (name, replica) in zip(each, content["replicas"].items(), strict=True):
            assert old in TINY
            files.append(RECIPES / f"lab-{name}.yaml")
            files[-1].write_text(TINY.replace(old, new).replace("lab-tiny", files[-1].stem))
            replica["recipe"] = files[-1].stem
        FLEET.write_text(yaml.safe_dump(content, sort_keys=False))
        yield
    finally:
        FLEET.write_text(text)
        for file in files:
            file.unlink()


@contextmanager
def asked(sparks: Sequence[Handle]) -> Iterator[list[Load]]:
    """Have a client ask each Spark until the block ends.

    All engines share the processors of one machine: more would only make each start longer.
    """
    with ExitStack() as stack:
        yield [stack.enter_context(load(spark, clients=1, pause=2)) for spark in sparks]


def seed(number: int) -> list[tuple[str, str]]:
    """Another release for each of the three."""
    return [("  seed: 0", f"  seed: {number}")] * 3


def current(spark: Handle) -> str:
    """Return the release that boots, and serves; "" for one that does not answer."""
    release = spark.run("basename $(readlink /opt/qwen36/current)").stdout.strip()
    return release if said(spark) is not None else ""


def report() -> dict[str, Any]:
    """Return what the last rollout has written."""
    newest = max((PROJECT / "rollouts").glob("*.json"))
    found: dict[str, Any] = json.loads(newest.read_text())
    return found


def results() -> list[str]:
    return [each["result"] for each in report()["replicas"]]


def test_all_switch_and_no_request_fails(sparks: list[Handle]) -> None:
    before = [current(spark) for spark in sparks]
    with asked(sparks) as seen, recipes(*seed(1)):
        run = pyinfra(ROLLOUT, *QUICK).succeeded()
        assert results() == ["switched"] * 3
        assert pyinfra(ROLLOUT, *QUICK).succeeded().changed == frozenset()
        assert results() == ["serves it already"] * 3
    assert [each.failed for each in seen] == [[], [], []], run.output
    after = [current(spark) for spark in sparks]
    assert not set(after) & {"", *before}


def test_a_second_wave_that_fails_ends_it(sparks: list[Handle]) -> None:
    before = [current(spark) for spark in sparks]
    with asked(sparks) as seen, recipes(seed(2)[0], BROKEN, seed(2)[2]):
        run = pyinfra(ROLLOUT, *QUICK)
    assert run.status == 1
    assert results() == ["switched", "failed, the former serves", "not reached"]
    assert "does not know a flag" in run.output
    assert "Not reached: lab3." in run.output
    after = [current(spark) for spark in sparks]
    assert after[0] not in ("", before[0])
    assert after[1:] == before[1:]
    assert [each.failed for each in seen] == [[], [], []], run.output


def test_the_next_one_goes_on_where_it_stopped(sparks: list[Handle]) -> None:
    with recipes(*seed(2)):
        pyinfra(ROLLOUT, *QUICK).succeeded()
    assert results() == ["serves it already", "switched", "switched"]


def test_a_canary_below_its_speed_is_taken_back(sparks: list[Handle]) -> None:
    before = [current(spark) for spark in sparks]
    with asked(sparks) as seen, recipes(*seed(3)):
        run = pyinfra(ROLLOUT, *QUICK, "--data", "minimum_speed=1000000")
    assert run.status == 1
    assert "tokens a second in one stream; expected at least 1000000" in run.output
    assert report()["replicas"][0]["speed"] > 1
    assert results() == ["failed, the former serves", "not reached", "not reached"]
    assert [current(spark) for spark in sparks] == before
    assert [each.failed for each in seen] == [[], [], []], run.output


def test_two_at_once(sparks: list[Handle]) -> None:
    with recipes(*seed(3)), background(ROLLOUT, *QUICK) as first:
        assert first.stdout
        assert any("wave 1 of 3: replica lab1 switches" in line for line in first.stdout)
        second = pyinfra(ROLLOUT, *QUICK)
        assert second.status == 1
        assert "found another run at work on it" in second.output
        assert pyinfra(DEPLOY, "--limit", "spark3").status == 1
        for _ in first.stdout:
            pass
        assert first.wait(30) == 0
    assert results() == ["switched"] * 3


def test_a_killed_one_is_continued(sparks: list[Handle]) -> None:
    with asked(sparks) as seen, recipes(*seed(4)):
        killed_at("wave 1 of 3: replica lab1 switches", ROLLOUT, *QUICK)
        pyinfra(ROLLOUT, *QUICK).succeeded()
    assert [each.failed for each in seen] == [[], [], []]
    assert all(current(spark).startswith("lab-lab") for spark in sparks)


def test_one_that_is_stopped_by_hand_meanwhile(sparks: list[Handle]) -> None:
    """Then another one down would be one too many."""
    before = [current(spark) for spark in sparks]
    with recipes(*seed(5)), background(ROLLOUT, *QUICK) as run:
        assert run.stdout
        assert any("wave 1 of 3: replica lab1 switches" in line for line in run.stdout)
        sparks[2].run(f"sudo systemctl stop vllm@{before[2]}", timeout=120)
        rest = "".join(run.stdout)
        assert run.wait(30) == 1
    assert "it served when the rollout began, and does no more" in rest
    assert results() == ["switched", "not reached", "refused"]
    assert current(sparks[1]) == before[1]
    sparks[2].run(f"sudo systemctl start vllm@{before[2]}", timeout=300)
    deadline = time.monotonic() + 120
    while current(sparks[2]) != before[2]:
        assert time.monotonic() < deadline
        time.sleep(1)
