"""Two replicas on one Spark: each is switched, ended and taken back without the other.

The tests build on one another, in order; clients go on asking both doors meanwhile.
"""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from typing import Any

import pytest

from tests.driver.client import CHAT, ask
from tests.driver.declared import edited, recipe, replica, seed
from tests.driver.load import Load, load
from tests.driver.product import DEPLOY, pyinfra, verification
from tests.driver.sparks import current, engines, eventually, forget
from tests.driver.ways_out import CLOSED, OPEN, abstract_listener, tried
from tests.lab.spark import Handle
from tests.lab.state import FLEET

# The second replica: its name, its port, and the model that it serves.
NAME, PORT, MODEL = "second", 8001, "other"
PLACE = f"/opt/qwen36/seats/{NAME}"
# What there is of a second replica alone.
LEFT = "ls -d /opt/qwen36/seats /opt/qwen36/*/seats /etc/systemd/system/door@.service /run/door@*"
OTHER = ("served_names: [tiny]", f"served_names: [{MODEL}]")


def second(spark: Handle) -> str:
    """Return the release that the second replica should serve."""
    return spark.run(f"basename $(readlink {PLACE}/current)").stdout.strip()


def units(*releases: str) -> set[str]:
    """Return the units of releases, as `engines` does."""
    return {f"vllm@{release}.service" for release in releases}


def answers(spark: Handle) -> bool:
    """Tell whether both models answer, each at its own door alone."""
    other = {**CHAT, "model": MODEL}
    right = ask(spark).ok and ask(spark, other, port=PORT).ok
    wrong = {ask(spark, other).status_code, ask(spark, port=PORT).status_code}
    return right and wrong == {404}


def served_by(**changes: object) -> Any:
    """Let the inventory say something else of the second replica for a while."""
    return edited(FLEET, lambda fleet: fleet["replicas"][NAME].update(changes))


@contextmanager
def both_loaded(spark: Handle) -> Iterator[tuple[Load, Load]]:
    """Keep clients asking at both doors."""
    with load(spark) as first, load(spark, port=PORT, model=MODEL) as other:
        yield first, other


@pytest.fixture(scope="module")
def two(spark: Handle) -> Iterator[str]:
    """The Spark in a second replica, which serves a model of another name; its first release."""
    pyinfra(DEPLOY).succeeded()
    forget(spark)
    before = current(spark)

    def add(fleet: dict[str, Any]) -> None:
        own = {"recipe": "lab-other", "port": PORT}
        # YAML would name what both have.
        fleet["replicas"][NAME] = deepcopy(fleet["replicas"]["lab1"]) | own

    with ExitStack() as stack:
        stack.enter_context(recipe("other", OTHER))
        stack.enter_context(edited(FLEET, add))
        yield before


def test_both_serve(spark: Handle, two: str) -> None:
    """The first one goes on meanwhile, its release as it was; a second run changes nothing."""
    assert {"Door | Door of the replica", "Engine | Serve the release"} <= set(
        pyinfra(DEPLOY, "--dry").succeeded().plan
    )
    assert spark.run("ls /opt/qwen36/seats", check=False).returncode
    with load(spark) as seen:
        run = pyinfra(DEPLOY).succeeded()
    assert seen.failed == [], run.output
    assert current(spark) == two
    assert second(spark).startswith("lab-other-")
    assert engines(spark) == units(two, second(spark))
    assert answers(spark)
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()


def test_what_looks_sees_both(spark: Handle, two: str) -> None:
    status = pyinfra("deploys/status.py", "--data", "json=-")
    rows = json.loads(status.output[status.output.index('{"time"') :].splitlines()[0])["sparks"]
    assert [(row["replica"], row["state"], row["door"]) for row in rows] == [
        ("lab1", "active", "active"),
        (NAME, "active", "active"),
    ]
    assert [row["warnings"] for row in rows] == [[], []]
    drift = pyinfra("deploys/drift.py")
    assert drift.status == 0, drift.output
    doctor = pyinfra("deploys/doctor.py").succeeded()
    assert doctor.changed == frozenset()
    assert len(re.findall(r"looked at \d+ lines", doctor.output)) == 2, doctor.output
    proved = verification()
    assert f"proved on spark1/{NAME}" in proved
    assert "proved on spark1/lab1" in proved


def test_code_in_an_engine_finds_no_way_out(spark: Handle, two: str) -> None:
    """Of either engine; it has what it needs."""
    gate = spark.run("ip route show default | cut -d' ' -f3").stdout.strip()
    lan = spark.run("hostname -I").stdout.split()[0]
    other = second(spark)
    with abstract_listener(spark):
        for release, neighbour in ((two, other), (other, two)):
            given = {"LAN": lan, "GATE": gate, "OTHER": neighbour}
            found = tried(spark, release, {**CLOSED, **OPEN}, **given)
            assert {name for name, is_open in found.items() if is_open} == set(OPEN), release


# Takes every connection to these ports for a while, and says how many there were.
_TAKE = """
import select, socket, sys, time
taken, listening = 0, []
for port in map(int, sys.argv[1:]):
    for address in ("0.0.0.0", "127.0.0.1", LAN):
        try:
            server = socket.socket()
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            server.bind((address, port))
            server.listen()
            listening.append(server)
        except OSError:
            pass
print("ready", len(listening), flush=True)
end = time.monotonic() + 15
while time.monotonic() < end:
    for server in select.select(listening, [], [], 0.2)[0]:
        server.accept()[0].close()
        taken += 1
print("taken", taken)
"""


def test_an_engine_takes_neither_prompts_nor_the_place_of_the_other(
    spark: Handle, two: str
) -> None:
    """It binds the ports of doors and gateway, and the socket of an engine that restarts."""
    other = second(spark)
    lan = spark.run("hostname -I").stdout.split()[0]
    thief = f"python3 -c {shlex.quote(_TAKE.replace('LAN', repr(lan)))} 8000 {PORT} 4000 18000"
    command = f"sudo docker exec vllm-{two} {thief} > /tmp/thief 2>&1"
    spark.run(f"nohup sh -c {shlex.quote(command)} >/dev/null 2>&1 &")

    def told(word: str) -> str:
        # The file may not be there yet.
        said = spark.run("cat /tmp/thief", check=False).stdout
        return said if word in said else ""

    eventually(lambda: told("ready"), "the ports to be bound")
    local = "curl -s -o /dev/null -w '%{http_code}\\n' http://127.0.0.1:8000/health"
    seen = spark.run(f"for turn in $(seq 20); do {local}; done").stdout.split()
    assert seen == ["200"] * 20
    assert all(answers(spark) for _ in range(5))
    spark.run(f"sudo docker kill vllm-{other}")
    eventually(lambda: answers(spark), "the second engine again")
    said = eventually(lambda: told("taken"), "the thief to end")
    assert said.splitlines()[-1] == "taken 0"


def test_an_engine_that_moves_its_socket_leads_its_door_nowhere(spark: Handle, two: str) -> None:
    """Its door finds it in a folder beyond which there is nothing for it."""
    other = second(spark)
    link = f"/opt/qwen36/sockets/seats/{NAME}/engines/{other}/api.sock"
    move = f"cd /run/vllm && mv api.sock old && ln -s {link} api.sock"
    spark.run(f"sudo docker exec vllm-{two} sh -c {shlex.quote(move)}")
    try:
        # The request waits until its supervisor has ended it, and another life answers.
        assert ask(spark, {**CHAT, "model": MODEL}).status_code in (404, 502, 503)
    finally:
        back = "cd /run/vllm && mv -f old api.sock"
        spark.run(f"sudo docker exec vllm-{two} sh -c {shlex.quote(back)}", check=False)
    eventually(lambda: answers(spark), "the first engine again")


def test_the_first_is_switched(spark: Handle, two: str) -> None:
    """And taken back: what a rollback is to take back has to be said."""
    other = second(spark)
    with (
        both_loaded(spark) as (first, beside),
        recipe("new", seed(1)) as name,
        replica(recipe=name),
    ):
        run = pyinfra(DEPLOY, "--limit", "lab1").succeeded()
        assert current(spark).startswith("lab-new-")
        refused = pyinfra("deploys/rollback.py")
        assert refused.status == 1
        assert f"--limit lab1, or --limit {NAME}" in " ".join(refused.output.split())
        pyinfra("deploys/rollback.py", "--limit", "lab1").succeeded()
    assert (first.failed, beside.failed) == ([], []), run.output
    assert engines(spark) == units(two, other)
    assert current(spark) == two


def test_the_second_is_switched(spark: Handle, two: str) -> None:
    other = second(spark)
    with both_loaded(spark) as (first, beside), recipe("late", OTHER, seed(1)) as name:
        with served_by(recipe=name):
            run = pyinfra(DEPLOY, "--limit", NAME).succeeded()
            assert second(spark).startswith("lab-late-")
            assert engines(spark) == units(two, second(spark))
        pyinfra("deploys/rollback.py", "--limit", NAME).succeeded()
    assert (first.failed, beside.failed) == ([], []), run.output
    assert engines(spark) == units(two, other)


def test_an_end_of_one_is_nothing_to_the_other(spark: Handle, two: str) -> None:
    with load(spark, port=PORT, model=MODEL) as beside:
        spark.run(f"sudo docker kill vllm-{two}")
        eventually(lambda: ask(spark).ok, "the first engine again")
    assert beside.failed == []
    with load(spark) as first:
        spark.run(f"sudo docker kill vllm-{second(spark)}")
        eventually(lambda: answers(spark), "the second engine again")
    assert first.failed == []


def test_one_is_stopped_and_started(spark: Handle, two: str) -> None:
    with load(spark) as first:
        pyinfra("deploys/stop.py", "--limit", NAME).succeeded()
        state = f"systemctl is-active vllm@{second(spark)}"
        assert spark.run(state, check=False).stdout == "inactive\n"
        pyinfra("deploys/start.py", "--limit", NAME).succeeded()
    assert first.failed == []
    assert answers(spark)


def test_both_come_back_after_two_power_cuts(spark: Handle, two: str) -> None:
    """One cut is one cut, though two engines saw it; of two within an hour neither boots again."""
    other = second(spark)
    spark.power_off()
    spark.power_on()
    spark.wait_ready()
    eventually(lambda: answers(spark), "both engines again")
    spark.power_off()
    spark.power_on()
    spark.wait_ready()
    states = [f"systemctl show -P Result vllm@{release}" for release in (two, other)]
    eventually(
        lambda: all(spark.run(state).stdout == "exit-code\n" for state in states),
        "both engines to be refused",
    )
    said = spark.run("sudo journalctl --boot --unit='vllm@*'").stdout
    assert len(re.findall("went down hard twice within an hour", said)) >= 2
    pyinfra(DEPLOY).succeeded()
    assert answers(spark)


def test_clean_keeps_both(spark: Handle, two: str) -> None:
    other = second(spark)
    pyinfra("deploys/clean.py", "--data", "keep_releases=0").succeeded()
    assert set(spark.run("ls /opt/qwen36/releases").stdout.split()) == {two, other}
    assert answers(spark)


def test_one_replica_again(spark: Handle, two: str) -> None:
    """What the second one had goes; the first one does not notice."""
    with load(spark) as first, edited(FLEET, lambda fleet: fleet["replicas"].pop(NAME)):
        run = pyinfra(DEPLOY).succeeded()
        assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    assert first.failed == [], run.output
    assert engines(spark) == units(two)
    assert spark.run(LEFT, check=False).stdout == ""
    assert "8001" not in spark.run("sudo ss -Hltn").stdout


def test_remove_takes_both(spark: Handle, two: str) -> None:
    pyinfra(DEPLOY).succeeded()
    pyinfra("deploys/remove.py").succeeded()
    units = "systemctl list-units --all --plain --no-legend 'door*' 'vllm@*'"
    assert spark.run(units).stdout == ""
    assert spark.run(LEFT, check=False).stdout == ""
