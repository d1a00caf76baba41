"""Six models on a Spark that holds a few of them: each is started by the request that needs it.

The tests build on one another, in order.
"""

import json
import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest
import requests

from tests.driver.declared import RECIPES
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
    client,
    clients,
    declared,
    release,
    running,
    states,
    told,
    waited,
    within_the_plan,
)
from tests.lab.spark import Handle

# TURNS_REQUESTS=1000 asks as often as the component tests do.
REQUESTS, CLIENTS = int(os.environ.get("TURNS_REQUESTS", "72")), 3
# Turns of each of two greedy clients.
TURNS = 3 if REQUESTS < 1000 else 12
START_TIMEOUT, HURRY = r"start_timeout: \d+", 60
# What there is where models take turns, and nowhere else.
RUN = "/run/sparkwright/turns.json /run/systemd/system/vllm@*"
LEFT = f"ls -d {ROOT}/seats /etc/systemd/system/turns.service {RUN}"


# Has all processes of an engine hang that starts: of this one, or whichever.
HANG = """for _ in $(seq 2000); do
  sleep 0.05; unit=$(systemctl list-units --plain --no-legend --state=activating '{unit}')
  unit=${{unit%%.service*}}; pids=$(docker top vllm-${{unit#vllm@}} -eo pid 2>&-) &&
    exec kill -STOP ${{pids#*PID}}
done; exit 1"""
KILL = """for _ in $(seq 2000); do
  sleep 0.05; unit=$(systemctl list-units --plain --no-legend --state=activating 'vllm@*')
  unit=${unit%%.service*}; docker kill vllm-${unit#vllm@} 2>&- && exit
done; exit 1"""
# Does something while an engine starts, or if that is over already, once it has.
STRIKE = """until systemctl show -P ActiveState vllm@{release} | grep -q ^activ; do sleep 0.05; done
until {strike}; do sleep 0.05; done"""
# Takes what is left of the disk, and what the file system keeps for its own needs.
FILL = """fallocate --length $(($(df --output=avail --block-size=1 /opt | tail -n 1))) /opt/filling
dd if=/dev/zero of=/opt/filler bs=64k 2>&-; true"""


def full_disk(spark: Handle) -> None:
    spark.run("sudo sh -s", stdin=FILL)
    time.sleep(10)
    spark.run("sudo rm /opt/filling /opt/filler")


def power_cut(spark: Handle) -> None:
    spark.power_off()
    spark.power_on()
    spark.wait_ready()


POWER = "the power is lost"
FAULTS: dict[str, Callable[[Handle], object]] = {
    "an engine is killed in its start": lambda spark: spark.run("sudo sh -s", stdin=KILL),
    "an engine hangs in its start": lambda spark: spark.run(
        "sudo sh -s", stdin=HANG.format(unit="vllm@*")
    ),
    "the loop is killed": lambda spark: spark.run("sudo systemctl kill -s 9 turns"),
    "the disk is full": full_disk,
    POWER: power_cut,
}


def changed(name: str, pattern: str, new: str) -> None:
    """Have other words in a recipe, until the module ends."""
    file = RECIPES / f"lab-{name}.yaml"
    text, count = re.subn(pattern, new, file.read_text())
    assert count == 1
    file.write_text(text)


@contextmanager
def others_served(spark: Handle, coder: str, rank: str) -> Iterator[None]:
    """Have other recipes of these two, which a block deploys; nobody who asks is to notice."""
    for name, new in (("coder", coder), ("rank", rank)):
        changed(name, re.sub(r"\d+", r"\\d+", new), new)
    before = {name: release(spark, name) for name in SHARES}
    with within_the_plan(spark), clients(spark, "chat", "coder", "rank") as seen:
        yield
    assert [one.failed for one in seen] == [[]] * 3
    print(f"\nthe longest wait: {max(one.longest_wait for one in seen):.1f} s")
    after = {name: release(spark, name) for name in SHARES}
    assert {name for name in SHARES if before[name] != after[name]} == {"coder", "rank"}
    assert asked(spark, "coder").ok
    until(spark, f"systemctl is-active vllm@{after['coder']}")


def serves(spark: Handle, name: str) -> bool:
    return asked(spark, name).ok


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
    # A timer writes it four times a minute.
    starts = 'spark_turn_starts_total{.*seat="coder"} 1'
    until(spark, f"grep -q '{starts}' {ROOT}/metrics/spark.prom")


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
            script = STRIKE.format(release=new, strike=strike.format(new))
            spark.run("sudo sh -s", stdin=script)
            assert answer.result().ok


def test_power_is_lost_in_a_turn(spark: Handle, turns: None) -> None:
    """What boots is what always runs; the first request starts its model."""
    # An answer of half a minute, should its start be over before it is seen.
    with ThreadPoolExecutor() as pool:
        lost = pool.submit(asked, spark, "chat", 3000, ignore_eos=True)
        eventually(lambda: told(spark)["chat"]["phase"] != "stopped", "the start of a turn")
        spark.power_off()
        spark.power_on()
        assert isinstance(lost.exception(), requests.ConnectionError)
    spark.wait_ready()
    await_running(spark, STEADY)
    assert asked(spark, "chat").ok


def test_many_requests(spark: Handle, turns: None) -> None:
    """Of clients that each stay with a model for a while."""
    with within_the_plan(spark), ThreadPoolExecutor() as pool:
        each = [pool.submit(client, spark, seed, REQUESTS // CLIENTS) for seed in range(CLIENTS)]
        answers = [one for found in each for one in found.result()]
    starts, waits = waited(spark, answers)
    start, wait = (took[int(0.95 * len(took))] for took in (starts, waits))
    print(f"\n{len(answers)} answers; p95 {wait:.1f} s, {waits[-1]:.1f} s; starts: {start:.1f} s")
    assert [each for each in answers if not each.ok] == []
    assert {each["refused"] for each in told(spark).values()} == {0}
    # Few requests may be of many turns.
    assert wait <= start + 5 or REQUESTS < 1000


def test_greedy_clients_get_their_turns_in_blocks(spark: Handle, turns: None) -> None:
    """Two of each, without a pause, of two models that do not fit beside each other."""
    names = ("chat", "coder")
    before = {name: told(spark)[name]["starts"] for name in names}
    with within_the_plan(spark), clients(spark, *names, each=GREEDY, pause=0) as seen:
        both = time.monotonic()
        eventually(
            lambda: min(told(spark)[name]["starts"] - before[name] for name in names) >= TURNS,
            "some turns of each",
            600,
        )
        ended = time.monotonic()
    served = [sum(both <= each.ended <= ended for each in one.answers) for one in seen]
    longest = max(one.longest_wait for one in seen)
    print(f"\nserved {served} in {ended - both:.0f} s; the longest wait: {longest:.1f} s")
    assert [one.failed for one in seen] == [[], []]
    # One may have a turn more than the other.
    assert max(served) <= (1 + 1 / TURNS) * 2 * min(served)
    # The other has one turn, and no second.
    assert longest <= 2 * (ended - both) / TURNS


@pytest.fixture(scope="module")
def hurried(spark: Handle, turns: None) -> None:
    """All of them have less time to start, and their doors hold requests for no longer."""
    for name in SHARES:
        changed(name, START_TIMEOUT, f"start_timeout: {HURRY}")
    pyinfra(DEPLOY).succeeded()
    forget(spark)


@pytest.mark.campaign
@pytest.mark.parametrize("fault", FAULTS)
def test_many_requests_beside_a_fault(spark: Handle, hurried: None, fault: str) -> None:
    """Whatever befalls, a client has an answer, or hears in time why not."""
    number = [*FAULTS].index(fault)
    with ExitStack() as stack:
        if fault != POWER:
            stack.enter_context(within_the_plan(spark))
        pool = stack.enter_context(ThreadPoolExecutor())
        seeds = range(CLIENTS * number, CLIENTS * (number + 1))
        each = [pool.submit(client, spark, seed, REQUESTS // CLIENTS) for seed in seeds]
        time.sleep(random.Random(number).uniform(5, 15))
        FAULTS[fault](spark)
        answers = [one for found in each for one in found.result()]
    failed = [one for one in answers if not one.ok]
    told_so = [one.response for one in failed if one.response is not None]
    reasons = Counter(each.json()["error"]["message"] for each in told_so)
    print(f"\n{fault}: {len(answers)} answers; {len(failed) - len(told_so)} lost; {reasons}")
    assert len(told_so) == len(failed) or fault == POWER
    assert max((one.ended - one.came for one in failed), default=0) < HURRY + 5
    assert {each.status_code for each in told_so} <= {503}
    assert all("Retry-After" in each.headers for each in told_so)
    for name in SHARES:
        eventually(partial(serves, spark, name), f"{name} to serve", 400)


@pytest.mark.campaign
def test_a_rollout_of_two(spark: Handle, turns: None) -> None:
    pyinfra(DEPLOY).succeeded()
    with others_served(spark, "seed: 2", "seed: 2"):
        run = rollout("--soak", "3", "--force", "coder,rank")
        assert run.returncode == 0, run.stdout
    print(run.stdout)


def test_a_run_that_has_two_serve_others(spark: Handle, turns: None) -> None:
    with others_served(spark, "seed: 1", "start_timeout: 20"):
        pyinfra(DEPLOY).succeeded()


def test_an_engine_that_hangs_in_its_start(spark: Handle, turns: None) -> None:
    """It is started anew; who waited is served, or hears why not. Others have their turns."""
    new = release(spark, "rank")
    spark.run(f"sudo systemctl stop vllm@{new}")
    with ExitStack() as stack:
        stack.enter_context(within_the_plan(spark))
        seen = stack.enter_context(clients(spark, "chat", "small"))
        pool = stack.enter_context(ThreadPoolExecutor())
        hung = [pool.submit(asked, spark, "rank") for _ in range(2)]
        spark.run("sudo sh -s", stdin=HANG.format(unit=f"vllm@{new}*"))
        assert spark.run(f"systemctl show -P ActiveState vllm@{new}").stdout == "activating\n"
        answers = [each.result() for each in hung]
        eventually(lambda: asked(spark, "rank").ok, "it to serve")
    assert "did not answer within 20 s" in spark.run(f"sudo journalctl -u vllm@{new}").stdout
    assert [one.failed for one in seen] == [[], []]
    assert [each.text for each in answers if not (each.ok or "it starts" in each.text)] == []


def test_a_full_disk(spark: Handle, turns: None) -> None:
    """Who serves goes on; who is asked for is refused, and nobody ended for it."""
    assert asked(spark, "chat").ok
    with within_the_plan(spark), clients(spark, "chat") as seen:
        spark.run("sudo sh -s", stdin=FILL)
        answer = asked(spark, "coder")
        assert (answer.status_code, "GB are free at /opt/" in answer.text) == (503, True), answer
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
