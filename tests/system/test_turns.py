"""Six models on a Spark that holds a few of them: each is started by the request that needs it.

The tests build on one another, in order.
"""

import json
import os
import random
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.driver.declared import RECIPES, seed
from tests.driver.load import CLIENTS as GREEDY
from tests.driver.product import DEPLOY, pyinfra, rollout, verification
from tests.driver.sparks import eventually, forget, until
from tests.driver.turns import (
    GATEWAY,
    ROOT,
    SHARES,
    STEADY,
    asked,
    await_running,
    clients,
    declared,
    release,
    running,
    states,
    told,
    within_the_plan,
)
from tests.lab.spark import Handle
from tests.makers.models import replaced

QUICKLY = ("start_timeout: 300", "start_timeout: 20")
LONG = 0
# TURNS_REQUESTS=1000 asks as often as the component tests do.
REQUESTS, CLIENTS = int(os.environ.get("TURNS_REQUESTS", "72")), 3
# What there is where models take turns, and nowhere else.
RUN = "/run/sparkwright/turns.json /run/systemd/system/vllm@*"
LEFT = f"ls -d {ROOT}/seats /etc/systemd/system/turns.service {RUN}"


# Has all processes of an engine's container hang.
HANG = """for _ in $(seq 400); do
  sleep 0.05; pids=$(docker top {engine} -eo pid 2>&-) && exec kill -STOP ${{pids#*PID}}
done"""
# Takes what is left of the disk, and what the file system keeps for its own needs.
FILL = """fallocate --length $(($(df --output=avail --block-size=1 /opt | tail -n 1))) /opt/filling
dd if=/dev/zero of=/opt/filler bs=64k 2>&-; df --output=avail --block-size=1M /opt | tail -n 1"""


@pytest.fixture(scope="module")
def turns(spark: Handle) -> Iterator[None]:
    """Six declared models, on a disk that the Spark has to itself."""
    spark.reset("own-disk")
    with declared():
        yield


def test_a_run_brings_all_and_starts_none(spark: Handle, turns: None) -> None:
    pyinfra(DEPLOY).succeeded()
    forget(spark)
    await_running(spark, STEADY)
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()


def test_a_request_starts_its_model(spark: Handle, turns: None) -> None:
    """Beside others, or in place of what does not fit beside it."""
    for name, others in (("chat", {"chat"}), ("small", {"chat", "small"}), ("coder", {"small"})):
        assert asked(spark, name).ok
        await_running(spark, STEADY, name, *others)


def test_what_looks_is_content(spark: Handle, turns: None) -> None:
    """The run, too: it changes nothing, whoever has the turn."""
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    pyinfra("deploys/drift.py").succeeded()
    status = pyinfra("deploys/status.py", "--data", "json=-").succeeded()
    rows = json.loads(status.output[status.output.index('{"time"') :].splitlines()[0])["sparks"]
    assert {row["replica"]: row["warnings"] for row in rows} == {name: [] for name in SHARES}
    serve = {row["replica"] for row in rows if row["turn"] and row["turn"]["phase"] == "serving"}
    assert {*serve, STEADY} == running(spark)
    assert pyinfra("deploys/doctor.py").succeeded().changed == frozenset()
    assert "proved on spark1/coder" in verification()
    metrics = spark.run(f"cat {ROOT}/metrics/spark.prom").stdout
    assert re.search('spark_turn_starts_total{.*seat="coder"} 1', metrics), metrics


def test_whom_its_owner_stops_stays_so(spark: Handle, turns: None) -> None:
    """`systemctl stop` gives its place up until somebody asks."""
    pyinfra("deploys/stop.py", "--limit", "coder").succeeded()
    refused = asked(spark, "coder")
    assert (refused.status_code, "until its owner starts it" in refused.text) == (503, True)
    pyinfra("deploys/start.py", "--limit", "coder").succeeded()
    assert "coder" not in running(spark)
    assert asked(spark, "coder").ok
    eventually(lambda: told(spark)["coder"]["phase"] == "serving", "the loop to see it serve")
    spark.run(f"sudo systemctl stop vllm@{release(spark, 'coder')}")
    assert asked(spark, "coder").ok


def test_who_is_killed_in_a_turn_costs_no_request(spark: Handle, turns: None) -> None:
    """The engine in its start, and the loop."""
    for name, strike in (("chat", "docker kill vllm-{}"), ("coder", "systemctl kill -s 9 turns")):
        new = release(spark, name)
        with ThreadPoolExecutor() as pool:
            answer = pool.submit(asked, spark, name)
            until(spark, f"systemctl show -P ActiveState vllm@{new} | grep -q activating")
            until(spark, f"sudo {strike.format(new)}")
            assert answer.result().ok


def test_power_is_lost_in_a_turn(spark: Handle, turns: None) -> None:
    """What boots is what always runs; the first request starts its model."""
    with ThreadPoolExecutor() as pool:
        lost = pool.submit(asked, spark, "chat")
        eventually(lambda: told(spark)["chat"]["phase"] == "starting", "the start of a turn")
        spark.power_off()
        spark.power_on()
        assert isinstance(lost.exception(), requests.ConnectionError)
    spark.wait_ready()
    await_running(spark, STEADY)
    assert asked(spark, "chat").ok


def test_many_requests(spark: Handle, turns: None) -> None:
    """Of clients that each stay with a model for a while."""

    def client(seed: int) -> list[requests.Response]:
        chance, answers = random.Random(seed), list[requests.Response]()
        while len(answers) < REQUESTS // CLIENTS:
            name = chance.choice([*SHARES])
            for _ in range(chance.randint(3, 9)):
                answers.append(asked(spark, name, chance.randint(1, 48)))
                time.sleep(chance.expovariate(5))
        return answers

    with within_the_plan(spark), ThreadPoolExecutor() as pool:
        answers = [each for found in pool.map(client, range(CLIENTS)) for each in found]
    took = sorted(each.elapsed.total_seconds() for each in answers)
    print(f"\n{len(took)} answers; p95 {took[int(0.95 * len(took))]:.1f} s, {took[-1]:.1f} s")
    assert [each.text for each in answers if not each.ok] == []
    assert {each["refused"] for each in told(spark).values()} == {0}


def test_greedy_clients_get_their_turns_in_blocks(spark: Handle, turns: None) -> None:
    """Two of each, without a pause, of two models that do not fit beside each other."""
    names = ("chat", "coder")
    before = {name: told(spark)[name]["starts"] for name in names}
    began = time.monotonic()
    with within_the_plan(spark), clients(spark, *names, each=GREEDY, pause=0) as seen:
        both = time.monotonic()
        eventually(
            lambda: min(told(spark)[name]["starts"] - before[name] for name in names) >= 2 + LONG,
            "some turns of each",
            600,
        )
        ended = time.monotonic()
    served = [sum(both <= each.ended <= ended for each in one.answers) for one in seen]
    longest = max(one.longest_wait for one in seen)
    print(f"\nserved {served} in {ended - both:.0f} s; the longest wait: {longest:.1f} s")
    assert [one.failed for one in seen] == [[], []]
    assert began


def test_a_rollout_of_some(spark: Handle, turns: None) -> None:
    """Whoever has the turn; each is asked meanwhile, and so is one that stays."""
    before = {name: release(spark, name) for name in SHARES}
    for name, change in (("coder", seed(1)), ("rank", QUICKLY)):
        file = RECIPES / f"lab-{name}.yaml"
        file.write_text(replaced(file.read_text(), change))
    with within_the_plan(spark), clients(spark, "chat", "coder", "rank") as seen:
        run = rollout("--soak", "3", "--force", "coder", "--force", "rank")
        assert run.returncode == 0, run.stdout
    assert [one.failed for one in seen] == [[]] * 3, run.stdout
    print(run.stdout, max(one.longest_wait for one in seen))
    after = {name: release(spark, name) for name in SHARES}
    assert {name for name in SHARES if before[name] != after[name]} == {"coder", "rank"}
    assert asked(spark, "coder").ok
    assert f"vllm@{after['coder']}" in spark.run("systemctl list-units 'vllm@*'").stdout
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()


def test_an_engine_that_hangs_in_its_start(spark: Handle, turns: None) -> None:
    """Its clients hear why before their hold is over; those of others wait for it, or do not."""
    new = release(spark, "rank")
    spark.run(f"sudo systemctl stop vllm@{new}")
    with (
        within_the_plan(spark),
        clients(spark, "chat", "small") as seen,
        ThreadPoolExecutor() as pool,
    ):
        hung = [pool.submit(asked, spark, "rank") for _ in range(2)]
        spark.run("sudo sh -s", stdin=HANG.format(engine=f"vllm-{new}"))
        assert spark.run(f"systemctl show -P ActiveState vllm@{new}").stdout == "activating\n"
        answers = [each.result() for each in hung]
        print([(each.status_code, each.elapsed, each.text, each.headers) for each in answers])
        eventually(lambda: asked(spark, "rank").ok, "it to serve")
    assert [one.failed for one in seen] == [[], []]
    assert [each.text for each in answers if "it starts" not in each.text] == []


def test_a_full_disk(spark: Handle, turns: None) -> None:
    """Who serves goes on; who is asked for is refused, and nobody ended for it."""
    assert asked(spark, "chat").ok
    with within_the_plan(spark), clients(spark, "chat") as seen:
        print(spark.run("sudo sh -s", stdin=FILL).stdout)
        answer = asked(spark, "coder")
        print(answer.status_code, answer.text, answer.elapsed)
        assert (answer.status_code, "GB are free" in answer.text) == (503, True), answer.text
        assert "chat" in running(spark)
        spark.run("sudo rm /opt/filling /opt/filler")
        eventually(lambda: not told(spark)["coder"]["why"], "the room to be seen")
        assert asked(spark, "coder").ok
    assert [one.failed for one in seen] == [[]]


def test_one_address_for_all(spark: Handle, turns: None) -> None:
    """Of the gateway on the Spark itself: it tells the state of each, and a request starts it."""
    pyinfra("deploys/gateway.py").succeeded()
    wanted = {name: "serving" if name in running(spark) else "stopped" for name in SHARES}
    eventually(lambda: wanted.items() <= states(spark).items(), f"{wanted}")
    stopped = next(name for name, state in wanted.items() if state == "stopped")
    assert asked(spark, stopped, port=GATEWAY).ok
    eventually(lambda: stopped in running(spark), f"{stopped} to run")


def test_remove_leaves_nothing_of_it(spark: Handle, turns: None) -> None:
    pyinfra("deploys/stop.py", "--limit", "coder").succeeded()
    pyinfra("deploys/remove.py").succeeded()
    units = "systemctl list-units --all --plain --no-legend 'door*' 'vllm@*' 'turns*'"
    assert spark.run(units).stdout == ""
    assert spark.run(LEFT, check=False).stdout == ""
