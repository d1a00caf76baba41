"""What one Spark that serves lives through, and what the doctor says of it.

The tests build on one another, in order.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from sparkwright.door.certificates import authority_file
from sparkwright.door.keys import keys_path
from tests.clock import patience
from tests.driver.client import CHAT, PORT, ask, authorization
from tests.driver.declared import changed, edited
from tests.driver.product import DEPLOY, PROJECT, killed_at, pyinfra, remote_commands
from tests.driver.sparks import (
    current,
    engines,
    eventually,
    forget,
    only,
    standing,
    unit,
    until,
    wait_active,
)
from tests.lab import hub
from tests.lab.network import LAN
from tests.lab.spark import Handle
from tests.lab.state import FLEET
from tests.security.attacks import CONNECTIONS, attack, median

BEGUN = "systemctl show -P ExecMainStartTimestampMonotonic 'vllm@*'"
# A stranger on the Spark's LAN; and tokens of an answer that takes the engine some 0.2 s.
HOSTILE, TOKENS = "10.213.0.66", 24
# What a failing start waits for before the next one is none of these tests' matters.
AT_ONCE = """
folder=/run/systemd/system/vllm@.service.d
mkdir $folder; printf '[Service]\\nRestartSec=0\\n' > $folder/at-once.conf; systemctl daemon-reload
"""
AS_BEFORE = "rm -r /run/systemd/system/vllm@.service.d; systemctl daemon-reload"


def examined() -> str:
    """Return what the doctor says of the Spark; it can look, and changes nothing."""
    run = pyinfra("deploys/doctor.py").succeeded()
    assert run.changed == frozenset()
    print(run.output)  # shown where a test fails
    return run.output


def test_a_person_finds_the_programs(spark: Handle, served: str) -> None:
    names = spark.run("ls /opt/qwen36/bin").stdout.split()
    assert "sparkwright-host" in names
    assert not [name for name in names if name.endswith(".py")]
    assert "\n  engine " in spark.run("sparkwright-host --help").stdout
    assert "engine ROOT RELEASE: " in spark.run("sparkwright-host engine --help").stdout
    engines = spark.run("sudo sparkwright-host door /opt/qwen36 engines").stdout
    assert engines.split()[0] == served


def test_stop_really_stops(spark: Handle, served: str) -> None:
    spark.run(f"sudo systemctl stop vllm@{served}")
    assert spark.run("sudo docker ps -q").stdout == ""
    assert spark.run(f"systemctl show -P Result vllm@{served}").stdout.strip() == "success"


def test_a_stopped_engine_is_started_by_a_run(spark: Handle, served: str) -> None:
    now = spark.run("sudo sh -c 'journalctl --quiet --lines=0 --show-cursor'").stdout
    cursor = now.removeprefix("-- cursor: ").strip()
    assert pyinfra(DEPLOY).succeeded().changed == {"Engine | Serve the release"}
    assert engines(spark) == {f"vllm@{served}.service"}
    # As docs/security.md says.
    log = f"sudo sh -c 'journalctl --output=cat --after-cursor=\"{cursor}\" _COMM=sudo'"
    by_sudo = set(re.findall(r"COMMAND=\S*/(\S+)", spark.run(log).stdout))
    assert by_sudo == {"sh", "true"}


def test_a_sound_spark(spark: Handle, served: str) -> None:
    """Nobody has asked this life of the engine for answers too long, or for any."""
    foreign = "systemd-run --quiet --collect --unit foreign python3 -m http.server 9321"
    spark.run(f"sudo {foreign}")
    until(spark, "ss -Hltn 'sport = :9321' | grep -q .")
    said = examined()
    spark.run("sudo systemctl stop foreign")
    assert "looked at" in said
    assert "not ours, and open to the LAN: python3 on * port 9321/tcp" in said
    assert f"no trouble found: vllm@{served} is active (serving)" in said


@pytest.mark.parametrize("words", [(DEPLOY, "-y"), (DEPLOY, "--dry"), ("deploys/drift.py",)])
def test_who_changes_nothing_asks_little(
    spark: Handle, served: str, words: tuple[str, ...]
) -> None:
    """Sudo, and what all operations read; the lease has a channel of its own."""
    commands = remote_commands(*words)
    assert len(commands) <= 3, commands


# The second operation finds what it wants in what was read first, and not after the first change.
LATER = """
from hashlib import sha256
from pyinfra.api import StringCommand, operation
from sparkwright.machine.host.operations.files import path_states
from sparkwright.run.session import start_session

@operation()
def has(text):
    found = path_states(["/run/later"])["/run/later"].detail
    if found != sha256(text.encode()).hexdigest():
        yield StringCommand(f"printf {text} > /run/later")

start_session()
has(name="Earlier", text="one")
has(name="Later", text="two")
"""


def test_a_change_makes_what_follows_look_anew(spark: Handle, served: str, tmp_path: Path) -> None:
    spark.run("printf two | sudo tee /run/later")
    deploy = tmp_path / "later.py"
    deploy.write_text(LATER)
    assert pyinfra(str(deploy)).succeeded().changed == {"Earlier", "Later"}
    assert spark.run("cat /run/later").stdout == "two"


def test_answers_that_were_cut(spark: Handle, served: str) -> None:
    """All that this life of the engine has given: they end with their 8 tokens."""
    assert ask(spark).json()["choices"][0]["finish_reason"] == "length"
    said = examined()
    assert "[content-null]" in said
    assert re.search(r"seen: .*\b(\d+) of \1 requests were cut by max_tokens", said)


@contextmanager
def hostile_neighbour() -> Iterator[tuple[str, ...]]:
    """A machine on the LAN that is not the clients'; the command that starts others on it."""
    with subprocess.Popen(["unshare", "--net", "sleep", "infinity"]) as machine:
        try:
            own = f"/proc/{machine.pid}/ns/net"
            eventually(lambda: not Path(own).samefile("/proc/self/ns/net"), "a network of its own")
            inside = ("nsenter", f"--net={own}")
            for command in (
                f"ip link add swlab-hostile type veth peer name eth0 netns {machine.pid}",
                f"ip link set swlab-hostile master {LAN} up",
                f"{' '.join(inside)} ip address add {HOSTILE}/24 dev eth0",
                f"{' '.join(inside)} ip link set eth0 up",
            ):
                subprocess.run(command.split(), check=True)
            yield inside
        finally:
            machine.kill()


@pytest.mark.campaign
@pytest.mark.parametrize("kind", ["silent", "head", "body", "garbage"])
def test_an_attack_from_the_lan_does_not_slow_clients(
    spark: Handle, served: str, kind: str
) -> None:
    """Through the door's unit, with its limits; of its time alone, some 20 s, it is in no tier."""
    body = {**CHAT, "max_tokens": TOKENS, "ignore_eos": True}

    def whole() -> None:
        assert ask(spark, body).ok

    def first() -> None:
        with ask(spark, {**body, "stream": True}, stream=True) as answer:
            assert next(answer.iter_lines())

    calm = median(whole), median(first)
    with (
        hostile_neighbour() as within,
        attack(
            PORT, kind, CONNECTIONS, sources=(HOSTILE,), target=spark.address, within=within
        ) as under_way,
    ):
        assert under_way.held <= 200
        attacked = median(whole), median(first)
    print(f"{kind}, whole and first token, ms:", *(f"{1000 * s:.0f}" for s in (*calm, *attacked)))
    assert under_way.tried >= CONNECTIONS
    assert attacked[0] < 1.5 * calm[0]


def test_reboot_serves_again(spark: Handle, served: str) -> None:
    spark.reboot()
    wait_active(spark)
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()


def test_power_cut_serves_again_and_is_named(spark: Handle, served: str) -> None:
    recorder = "systemctl is-active flight-recorder"
    assert spark.run(recorder).stdout == "active\n"
    # Neither a reboot in order, as of the test before, nor an end of the recorder is a hard end.
    again = "test $(systemctl show -P NRestarts flight-recorder) = 1 && " + recorder
    spark.run("sudo systemctl kill -s KILL --kill-whom=main flight-recorder")
    until(spark, f"{again} && test -s /opt/qwen36/state/recording")
    assert "it went down hard" not in examined()
    # Lines of a minute, as a life of some seconds tells nothing.
    ring = "sudo grep -ac '^[0-9]' /opt/qwen36/state/flight-recorder"
    eventually(lambda: int(spark.run(ring).stdout) >= 60, "lines of a minute")
    spark.power_off()
    spark.power_on()
    spark.wait_ready()
    wait_active(spark)
    eventually(lambda: spark.run(recorder, check=False).stdout == "active\n", "the recorder")
    told = pyinfra("deploys/status.py", "--data", "json=-").output
    assert "it went down hard" in told
    assert '"cause": "power"' in told
    found = examined()
    assert "[down-power]" in found
    assert "time up watts" in found
    assert "[hard-downs]" not in found


def test_damaged_weights_are_fetched_again(spark: Handle, served: str) -> None:
    spark.run("sudo sh -c 'cd /opt/qwen36/tiny@*; rm config.json; truncate -s -1 tokenizer.json'")
    before = hub.stats()
    assert pyinfra(DEPLOY).succeeded().changed == {"Weights | Checkpoints"}
    fetched = {
        name.rsplit("/", 1)[1]
        for name, seen in hub.stats().items()
        if seen["bytes"] > before.get(name, {"bytes": 0})["bytes"]
    }
    assert fetched == {"config.json", "tokenizer.json"}


def test_from_the_spark_itself(spark: Handle, served: str) -> None:
    """A second operator, who sits at the Spark, gets the same: nothing is left to change.

    Without the lock and the keys of the first one, nothing is changed either.
    """
    names = subprocess.check_output(["git", "ls-files", "-z"], cwd=PROJECT)
    pack = ["tar", "--create", "--null", "--files-from=-"]
    archive = subprocess.check_output(pack, cwd=PROJECT, input=names)
    unpack = "mkdir -p sparkwright && tar --extract --directory sparkwright"
    subprocess.run(spark.ssh_command(unpack), input=archive, check=True)
    fleet = (
        "sparks: {spark1: {local: true, hardware: lab}}\n"
        "replicas:\n  lab1: {recipe: lab-tiny, sparks: [spark1], trusts: [tool-parser-plugin]}\n"
    )
    spark.run("cat > sparkwright/inventory/lab.yaml", stdin=fleet)
    spark.run(
        "cd sparkwright && python3 -m venv .venv && "
        ".venv/bin/pip install --quiet --no-deps --require-hashes -r requirements.lock",
        timeout=300,
    )
    deploy = "cd sparkwright && .venv/bin/pyinfra inventory/lab.py deploys/spark.py -y --json"
    refused = spark.run(deploy, check=False, timeout=300)
    assert refused.returncode == 1
    assert f"lab.lock.yaml: found no such file, while spark1 serves {served};" in refused.stderr
    adopt = re.search(r"(sparkwright -i lab lock --adopt .+)", refused.stderr)
    assert adopt, refused.stderr
    hub_options = f"--hf-endpoint {hub.URL} --hf-token http"
    spark.run(f"cd sparkwright && .venv/bin/python -m {adopt[1]} {hub_options}")
    refused = spark.run(deploy, check=False, timeout=300)
    assert refused.returncode == 1
    assert "lab.keys: found no such file, while the door of spark1 has keys;" in refused.stderr
    assert "lab.keys" not in spark.run("ls sparkwright/inventory").stdout
    assert ask(spark).ok
    keys = "umask 077; cat > sparkwright/inventory/lab.keys"
    spark.run(keys, stdin=keys_path(FLEET).read_text())
    answer = spark.run(deploy, timeout=300)
    totals = json.loads(answer.stdout)["results"]["totals"]
    assert (totals["success"], totals["error"]) == (0, 0), answer.stdout


def test_a_context_that_the_model_lacks(spark: Handle, served: str) -> None:
    """The engine refuses it when it reads the checkpoint: a start that may be tried again."""
    with changed("broken", ("max-model-len: 4096", "max-model-len: 99999999")):
        pyinfra(DEPLOY).fails("max_model_len")
    assert standing(spark) == only(served)


def test_a_failing_start_is_tried_five_times(spark: Handle, served: str) -> None:
    forget(spark)
    name = unit(spark)
    spark.run("sudo tee /opt/qwen36/current/run", stdin="#!/bin/sh\nexit 1\n")
    spark.run("sudo sh -s", stdin=AT_ONCE)
    spark.run(f"sudo systemctl restart --no-block {name}")
    until(spark, f"systemctl is-failed {name}")
    spark.run("sudo sh -s", stdin=AS_BEFORE)
    # The fifth of these is refused.
    assert spark.run(f"systemctl show -P NRestarts {name}").stdout.strip() == "5"
    said = examined()
    assert "[start-limit]" in said
    assert f"seen: {name}: Start request repeated too quickly." in said


def test_a_run_restores_what_was_spoiled(spark: Handle, served: str) -> None:
    pyinfra(DEPLOY).succeeded()
    assert standing(spark) == only(served)


def test_tls_by_one_word(spark: Handle, served: str) -> None:
    tls = (DEPLOY, "--data", "tls=own")
    assert pyinfra(*tls).succeeded().changed == {"Door | Door of the replica"}
    url, trust = f"https://{spark.address}:{PORT}/v1/chat/completions", str(authority_file(FLEET))
    known = {"headers": authorization(), "timeout": patience(), "verify": trust}
    assert requests.post(url, json=CHAT, **known).ok
    assert pyinfra(*tls).succeeded().changed == frozenset()
    back = pyinfra(DEPLOY).succeeded().says("Keys and prompts go to port 8000 in the clear")
    assert back.changed == {"Door | Door of the replica"}
    record = spark.run("sudo tail -n 1 /opt/qwen36/state/changes.log").stdout.strip()
    assert re.search(r"inventory/lab.py deploys/spark.py, Sparkwright .+: Door \| Door of", record)
    assert ask(spark).ok


def test_an_idle_spark_serves_nothing(spark: Handle, served: str) -> None:
    with edited(FLEET, lambda fleet: fleet.pop("replicas")):
        pyinfra(DEPLOY).succeeded()
        assert spark.run("systemctl is-enabled 'vllm@*'", check=False).returncode
        assert spark.run("sudo docker ps -q").stdout == ""
        assert pyinfra(DEPLOY).succeeded().changed == frozenset()
        # Of the power cut of a test before, the doctor would speak for a day.
        spark.run("sudo rm -f /opt/qwen36/state/last-down.json /opt/qwen36/state/hard-downs")
        assert "this Spark is idle" in examined()


def test_a_run_killed_while_the_engine_starts(spark: Handle, served: str) -> None:
    """The next run joins the start that is under way."""
    killed_at("engine: ", DEPLOY)
    begun = spark.run(BEGUN).stdout
    pyinfra(DEPLOY).succeeded()
    wait_active(spark)
    assert spark.run(BEGUN).stdout == begun
    assert current(spark) == served
