"""What one Spark that serves lives through, and what the doctor says of it.

The tests build on one another, in order.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import requests
import yaml

from sparkwright.door.certificates import authority_file
from sparkwright.door.keys import keys_path
from tests.clock import patience
from tests.driver.client import CHAT, PORT, ask, authorization
from tests.driver.declared import changed, edited
from tests.driver.product import (
    DEPLOY,
    PROJECT,
    killed_at,
    pyinfra,
    remote_commands,
    verification,
)
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
from tests.driver.wheels import wheel
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


def test_what_starts_took_is_kept_and_told(spark: Handle, served: str) -> None:
    """By a program in the unit of the engine, and through a reboot; the door goes by it."""
    wait = f"sudo grep -c {served} /opt/qwen36/state/starts"
    eventually(lambda: int(spark.run(wait).stdout) >= 3, "a record of the last start")
    kept = [
        json.loads(each)
        for each in spark.run("cat /opt/qwen36/state/starts").stdout.split("\n")[:-1]
    ]
    for each in kept:
        print(each)
        assert (each["kind"], each["failed"]) == ("warm", "")
        assert each["phases"]["init"] > 0
        assert each["phases"]["token"] > 0
        assert sum(each["phases"].values()) <= each["seconds"] + 0.1
    last = f"{kept[-1]['seconds']:.0f} s (warm)"
    assert f"spark1: starts: {last}, " in pyinfra("deploys/status.py").succeeded().output
    again = spark.run("sudo cat /opt/qwen36/door/choice.map").stdout.split("again ")[1]
    assert int(again) >= min(each["seconds"] for each in kept)


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


@pytest.fixture(scope="module")
def wheels(spark: Handle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, and those that it needs, for the Python of a Spark."""
    folder = tmp_path_factory.mktemp("wheels")
    wheel(folder)
    python = spark.run("python3 -c 'import sys; print(*sys.version_info[:2], sep=\".\")'").stdout
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    pip += ["--only-binary=:all:", f"--python-version={python.strip()}", "--require-hashes"]
    subprocess.run([*pip, "--requirement", "requirements.lock"], cwd=PROJECT, check=True)
    return folder


def test_from_the_spark_itself(spark: Handle, served: str, wheels: Path) -> None:
    """A second operator, with an empty account on the Spark: nothing is left to change.

    She has no package index and no SSH. Without the lock and the keys of the first one, nothing is
    changed either.
    """
    spark.run(
        "sudo useradd --create-home --shell /bin/bash ann && "
        "echo 'ann ALL=(ALL) NOPASSWD: ALL' | sudo tee /etc/sudoers.d/ann"
    )

    def ann(line: str, status: int = 0, stdin: str = "") -> str:
        """Type a line in a login of hers, from the folder of the site once there is one."""
        there = "[ ! -d my-sparks ] || { cd my-sparks; . ../python/bin/activate; }"
        words = shlex.join(["sudo", "--login", "--user=ann", "sh", "-c", f"{there}; {line}"])
        done = spark.run(words, check=False, timeout=300, stdin=stdin)
        said = done.stdout + done.stderr
        assert (done.returncode, "Traceback" in said) == (status, False), said
        return said

    archive = subprocess.check_output(["tar", "--create", f"--directory={wheels}", "."])
    subprocess.run(spark.ssh_command("mkdir wheels; tar -x -C wheels"), input=archive, check=True)
    spark.run("sudo sh -c 'mv wheels /home/ann; chown -R ann: /home/ann/wheels'")
    ann("python3 -m venv python")
    ann("python/bin/pip install --quiet --no-index --find-links wheels 'sparkwright[verify]'")
    assert "local: ok: NVIDIA GB10, " in ann("python/bin/sparkwright init my-sparks --spark local")
    assert "spark-a: {local: true}" in ann("cat inventory/sparks.yaml")
    replicas = "  lab1: {recipe: lab-tiny, sparks: [spark1], trusts: [tool-parser-plugin]}\n"
    fleet = f"sparks: {{spark1: {{local: true, hardware: lab}}}}\nreplicas:\n{replicas}"
    ann("cat > inventory/sparks.yaml", stdin=fleet)
    settings = (PROJECT / "group_data/lab.py").read_text()
    ann("cat > group_data/sparks.py", stdin=settings.replace("_fingerprint.read_text()", '""'))
    said = ann("sparkwright apply -y", 1)
    assert f"sparks.lock.yaml: found no such file, while spark1 serves {served};" in said
    adopt = re.search(r"(sparkwright lock --adopt .+)", said)
    assert adopt, said
    ann(f"{adopt[1]} --hf-endpoint {hub.URL} --hf-token http")
    said = ann("sparkwright apply -y", 1)
    assert "sparks.keys: found no such file, while the door of spark1 has keys;" in said
    assert "sparks.keys" not in ann("ls inventory")
    assert ask(spark).ok
    ann("umask 077; cat > inventory/sparks.keys", stdin=keys_path(FLEET).read_text())
    assert "Nothing was changed." in ann("sparkwright apply -y")
    assert "looked at" in ann("sparkwright doctor")
    said = ann("sparkwright verify --record record.yaml")
    assert "proved on spark1" in said
    record = ann("cat record.yaml")
    (kept,) = yaml.safe_load(record)["records"]
    assert (kept["recipe"], kept["hardware"], len(kept["machines"])) == ("lab-tiny", "lab", 1)
    assert kept["proved"] == said.partition("proved on spark1")[2].count("\n  ")
    named = spark.run("cat /etc/machine-id; ip -brief address; hostname; pwd").stdout.split()
    key = keys_path(FLEET).read_text().split("key: ")[-1].split()[0]
    known = [each.partition("/")[0] for each in [*named, key, "ann", "lab1"]]
    assert [each for each in known if len(each) > 2 and each in record] == []


def test_a_door_on_the_address_of_a_tunnel(spark: Handle, served: str) -> None:
    """As a VPN's interface has it, which comes and goes."""
    tunnel, settings = "100.101.102.103", PROJECT / "group_data/lab1.py"
    make = f"ip link add vpn0 type bridge && ip address add {tunnel}/32 dev vpn0"
    spark.run(f'sudo sh -c "{make}"')
    subprocess.run(["ip", "route", "add", tunnel, "via", spark.address], check=True)
    settings.write_text(f'bind = "{tunnel}"\n')
    url = f"http://{tunnel}:{PORT}/v1/models"

    def answers() -> bool:
        with suppress(requests.ConnectionError):
            return requests.get(url, headers=authorization(), timeout=(patience(3), patience())).ok
        return False

    try:
        assert pyinfra(DEPLOY).succeeded().changed == {"Door | Door of the replica"}
        assert answers()
        with pytest.raises(requests.ConnectionError):
            ask(spark)
        assert pyinfra(DEPLOY).succeeded().changed == frozenset()
        assert "port 8000 wants the key" in verification()
        # The Spark boots, and the tunnel comes later.
        spark.reboot()
        assert not answers()
        spark.run(f'sudo sh -c "{make}"')
        eventually(answers, "the door on its address")
    finally:
        settings.unlink()
        subprocess.run(["ip", "route", "del", tunnel], check=True)
    spark.run("sudo ip link del vpn0")
    pyinfra(DEPLOY).succeeded()
    assert ask(spark).ok


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
