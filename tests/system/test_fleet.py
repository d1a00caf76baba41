"""Three virtual Sparks, a replica on each: their weights, rollouts, and the gateway before them.

The tests build on one another, in order.
"""

import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import requests

from sparkwright.door.keys import api_keys
from sparkwright.verify import tools
from tests.clock import patience
from tests.driver.client import CHAT, ask, authorization, said
from tests.driver.declared import BROKEN, Change, edited, recipe, seed
from tests.driver.load import Load, load
from tests.driver.product import DEPLOY, PROJECT, ROLLOUT, background, killed_at, pyinfra, rollout
from tests.driver.sparks import current, eventually
from tests.lab.spark import Handle
from tests.lab.state import FLEET

GATEWAY, PORT = "deploys/gateway.py", 4000
PREPARE = ("sparkwright.deploy.prepare", "/dev/null")
WEIGHTS = "sparkwright.artifacts.weights.deploy.apply"
REPO = "sparkwright/tiny-qwen3.5-moe"
QUICK = ("--soak", "3", "--data", "trial_seconds=3")
# Each switch holds its lease for longer than another run takes to ask for it.
PATIENT = ("--soak", "3", "--data", f"trial_seconds={patience(15):.0f}")
TURN = "wave 1 of 3: replica lab1 switches"


@pytest.fixture(scope="module")
def sparks(three: list[Handle]) -> Iterator[list[Handle]]:
    """Three Sparks that serve, and a gateway on one."""
    gateway = {"spark": "spark1", "port": PORT}
    with edited(FLEET, lambda fleet: fleet.update(gateway=gateway)):
        pyinfra(DEPLOY).succeeded()
        pyinfra(GATEWAY).succeeded()
        yield three


@contextmanager
def recipes(*each: Change) -> Iterator[None]:
    """Have the replicas be to serve lab-tiny with a change, one for each; then lab-tiny again."""
    names = ("lab1", "lab2", "lab3")
    with ExitStack() as stack:
        own = zip(names, each, strict=True)
        stems = [stack.enter_context(recipe(name, change)) for name, change in own]

        def serve(fleet: dict[str, Any]) -> None:
            for name, stem in zip(names, stems, strict=True):
                fleet["replicas"][name]["recipe"] = stem

        stack.enter_context(edited(FLEET, serve))
        yield


@contextmanager
def asked(sparks: Sequence[Handle]) -> Iterator[list[Load]]:
    """Have clients ask each Spark's door, and the gateway, until the block ends."""
    with ExitStack() as stack:
        each = [stack.enter_context(load(spark, clients=1, pause=5)) for spark in sparks]
        yield [*each, stack.enter_context(load(sparks[0], clients=1, pause=5, port=PORT))]


def served(spark: Handle) -> str:
    """Return the release that boots, and serves; "" for one that does not answer."""
    return current(spark) if said(spark) is not None else ""


def report() -> dict[str, Any]:
    """Return what the last rollout has written."""
    return dict(json.loads(max((PROJECT / "rollouts").glob("*.json")).read_text()))


def results() -> list[str]:
    """Return what came of each replica."""
    return [each["result"] for each in report()["replicas"]]


def wait_for(spark: Handle, status: str) -> None:
    """Wait until what the gateway says of its replicas begins so."""
    shown = "systemctl show --property StatusText --value gateway"
    what = f"the gateway to say: {status}"
    eventually(lambda: spark.run(shown).stdout.startswith(status), what)


def test_a_gateway_is_converged(sparks: list[Handle]) -> None:
    assert pyinfra(GATEWAY).succeeded().changed == frozenset()
    wait_for(sparks[0], "in service: lab1, lab2, lab3")


def test_clients_of_it(sparks: list[Handle]) -> None:
    key = api_keys(FLEET)[0]
    url = f"http://{sparks[0].address}:{PORT}/v1"
    body = {**CHAT, "model": "tiny-instruct-general", "max_tokens": 8, "temperature": 0}
    with ask(sparks[0], {**body, "stream": True}, port=PORT, stream=True) as answer:
        events = [line for line in answer.iter_lines() if b'"choices"' in line]
    assert len(events) >= 2
    models = sparks[1].run(f"curl -sS -H @- {url}/models", stdin=f"Authorization: Bearer {key}")
    names = {each["id"] for each in json.loads(models.stdout)["data"]}
    assert {"tiny", "tiny-thinking-coding", "tiny-instruct-reasoning"} <= names
    story = tools.STORIES[0]
    body = {**CHAT, "max_tokens": 1024, "tools": tools.TOOLS, "messages": tools.opening(story)}
    assert not tools.problems(ask(sparks[0], body, port=PORT).json()["choices"][0], story.steps[0])


def test_a_replica_without_power(sparks: list[Handle]) -> None:
    """What it was saying breaks off with an error; others go on, and take what comes next."""
    # 400 tokens take 3 s: less than a look at three busy engines may.
    body = {**CHAT, "max_tokens": 3000, "stream": True, "ignore_eos": True}

    def stream() -> list[str]:
        with ask(sparks[0], body, port=PORT, stream=True) as answer:
            return [line.decode() for line in answer.iter_lines() if line]

    with ThreadPoolExecutor() as pool:
        streams = [pool.submit(stream) for _ in sparks]
        eventually(lambda: all(map(running, sparks)), "a stream on each")
        sparks[2].power_off()
        for _ in range(6):
            assert ask(sparks[0], port=PORT).ok
        ends = [each.result()[-1] for each in streams]
    assert ends.count("data: [DONE]") == 2, ends
    assert sum('"error"' in end for end in ends) == 1, ends
    wait_for(sparks[0], "in service: lab1, lab2; lab3 does not")
    sparks[2].power_on()
    sparks[2].wait_ready()
    wait_for(sparks[0], "in service: lab1, lab2, lab3")


def running(spark: Handle) -> int:
    """Return how many requests its engine has in its hands."""
    url = f"http://{spark.address}:8000/metrics"
    answer = requests.get(url, headers=authorization(), timeout=patience())
    samples = re.findall(r"^vllm:num_requests_running.* (\S+)$", answer.text, re.MULTILINE)
    return int(sum(map(float, samples)))


def test_all_switch_and_no_request_fails(sparks: list[Handle]) -> None:
    """While one rollout is at work, no other run is let in."""
    before = [served(spark) for spark in sparks]
    with asked(sparks) as seen, recipes(*[seed(1)] * 3):
        planned = rollout("--dry", *QUICK)
        assert planned.returncode == 0, planned.stdout
        assert f"wave 1 of 3: lab1 ({before[0]} -> " in planned.stdout
        with background(*PATIENT, program=ROLLOUT) as first:
            assert first.stdout
            assert any(TURN in line for line in first.stdout)
            # A start that takes a second comes between two looks; a trial does not.
            assert any("on trial" in line for line in first.stdout)
            pyinfra(DEPLOY, "--limit", "spark1").fails("found another run at work on it")
            second = rollout(*QUICK)
            assert second.returncode == 1
            assert "found another rollout at work in this folder" in second.stdout
            said = "".join(first.stdout)
            assert first.wait(patience()) == 0, said
        assert results() == ["switched"] * 3
        assert pyinfra(*PREPARE).succeeded().changed == frozenset()
        assert rollout(*QUICK).returncode == 0
        assert results() == ["serves it already"] * 3
    assert [each.failed for each in seen] == [[]] * 4, said
    after = [served(spark) for spark in sparks]
    assert not set(after) & {"", *before}


def test_a_second_wave_that_fails_ends_it(sparks: list[Handle]) -> None:
    before = [served(spark) for spark in sparks]
    with asked(sparks) as seen, recipes(seed(2), BROKEN, seed(2)):
        run = rollout(*QUICK)
    assert run.returncode == 1
    assert results() == ["switched", "failed, the previous release serves", "not reached"]
    assert "does not know a flag" in run.stdout
    assert re.search("^lab3 +3 +not reached$", run.stdout, re.MULTILINE), run.stdout
    after = [served(spark) for spark in sparks]
    assert after[0] not in ("", before[0])
    assert after[1:] == before[1:]
    assert [each.failed for each in seen] == [[]] * 4, run.stdout


def test_a_killed_one_is_continued_where_it_stopped(sparks: list[Handle]) -> None:
    with asked(sparks) as seen, recipes(*[seed(2)] * 3):
        killed_at("replica lab2 switches", *QUICK, program=ROLLOUT)
        run = rollout(*QUICK)
        assert run.returncode == 0, run.stdout
        assert results()[0] == "serves it already"
        assert results()[2] == "switched"
        assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    assert [each.failed for each in seen] == [[]] * 4


def test_a_canary_below_its_speed_is_taken_back(sparks: list[Handle]) -> None:
    before = [served(spark) for spark in sparks]
    with asked(sparks) as seen, recipes(*[seed(3)] * 3):
        run = rollout(*QUICK, "--minimum-speed", "1000000")
    assert run.returncode == 1
    assert "tokens a second in one stream; expected at least 1000000" in run.stdout
    assert report()["replicas"][0]["speed"] > 1
    assert results() == ["failed, the previous release serves", "not reached", "not reached"]
    assert [served(spark) for spark in sparks] == before
    assert [each.failed for each in seen] == [[]] * 4, run.stdout


def test_one_that_is_stopped_by_hand_meanwhile(sparks: list[Handle]) -> None:
    """Then another one down would be one too many."""
    before = [served(spark) for spark in sparks]
    with recipes(*[seed(4)] * 3), background(*QUICK, program=ROLLOUT) as run:
        assert run.stdout
        assert any(TURN in line for line in run.stdout)
        sparks[2].run(f"sudo systemctl stop vllm@{before[2]}", timeout=patience(120))
        rest = "".join(run.stdout)
        assert run.wait(patience()) == 1
    assert "it served when the rollout began, and does no more" in rest
    assert results() == ["switched", "not reached", "refused"]
    assert served(sparks[1]) == before[1]
