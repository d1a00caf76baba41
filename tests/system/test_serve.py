"""What one Spark that serves lives through, and what the doctor says of it.

The tests build on one another, in order.
"""

import json
import re
import subprocess

import requests

from deploys.certificate import authority_file
from deploys.keys import keys_path
from tests.clock import patience
from tests.driver.client import CHAT, PORT, ask, authorization
from tests.driver.declared import changed, edited
from tests.driver.product import DEPLOY, PROJECT, killed_at, pyinfra
from tests.driver.sparks import current, engines, forget, only, standing, unit, until, wait_active
from tests.lab import hub
from tests.lab.spark import Handle
from tests.lab.state import FLEET

BEGUN = "systemctl show -P ExecMainStartTimestampMonotonic 'vllm@*'"
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


def test_stop_really_stops(spark: Handle, served: str) -> None:
    spark.run(f"sudo systemctl stop vllm@{served}")
    assert spark.run("sudo docker ps -q").stdout == ""
    assert spark.run(f"systemctl show -P Result vllm@{served}").stdout.strip() == "success"


def test_a_stopped_engine_is_started_by_a_run(spark: Handle, served: str) -> None:
    assert pyinfra(DEPLOY).succeeded().changed == {"Engine | Serve the release"}
    assert engines(spark) == {f"vllm@{served}.service"}


def test_a_sound_spark(spark: Handle, served: str) -> None:
    """Nobody has asked this life of the engine for answers too long, or for any."""
    said = examined()
    assert "looked at" in said
    assert f"no trouble found: vllm@{served} is active (serving)" in said


def test_answers_that_were_cut(spark: Handle, served: str) -> None:
    """All that this life of the engine has given: they end with their 8 tokens."""
    assert ask(spark).json()["choices"][0]["finish_reason"] == "length"
    said = examined()
    assert "[content-null]" in said
    assert re.search(r"seen: .*\b(\d+) of \1 requests were cut by max_tokens", said)


def test_reboot_serves_again(spark: Handle, served: str) -> None:
    spark.reboot()
    wait_active(spark)
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()


def test_power_cut_serves_again(spark: Handle, served: str) -> None:
    spark.power_off()
    spark.power_on()
    spark.wait_ready()
    wait_active(spark)


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
    """An owner who sits at the Spark gets the same: nothing is left to change."""
    names = subprocess.run(
        ["git", "ls-files", "-z"], cwd=PROJECT, capture_output=True, check=True
    ).stdout
    archive = subprocess.run(
        ["tar", "--create", "--null", "--files-from=-"],
        cwd=PROJECT,
        input=names,
        capture_output=True,
        check=True,
    ).stdout
    unpack = "mkdir -p sparkwright && tar --extract --directory sparkwright"
    subprocess.run(spark.ssh_command(unpack), input=archive, check=True)
    fleet = (
        "sparks: {spark1: {local: true, hardware: lab}}\n"
        "replicas:\n  lab1: {recipe: lab-tiny, sparks: [spark1], trusts: [tool-parser-plugin]}\n"
    )
    spark.run("cat > sparkwright/inventory/lab.yaml", stdin=fleet)
    keys = "umask 077; cat > sparkwright/inventory/lab.keys"
    spark.run(keys, stdin=keys_path(FLEET).read_text())
    spark.run(
        "cd sparkwright && python3 -m venv .venv && "
        ".venv/bin/pip install --quiet --require-hashes -r requirements.lock",
        timeout=300,
    )
    answer = spark.run(
        "cd sparkwright && .venv/bin/pyinfra inventory/lab.py deploys/spark.py -y --json",
        timeout=300,
    )
    totals = json.loads(answer.stdout)["results"]["totals"]
    assert (totals["success"], totals["error"]) == (0, 0), answer.stdout


def test_a_context_that_the_model_lacks(spark: Handle, served: str) -> None:
    """The engine refuses it when it reads the checkpoint: a start that may be tried again."""
    with changed("broken", ("max-model-len: 4096", "max-model-len: 99999999")):
        run = pyinfra(DEPLOY)
    assert run.status == 1
    assert "max_model_len" in run.output
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
    secured = requests.post(
        f"https://{spark.address}:{PORT}/v1/chat/completions",
        json=CHAT,
        headers=authorization(),
        timeout=patience(),
        verify=str(authority_file(FLEET)),
    )
    assert secured.ok
    assert pyinfra(*tls).succeeded().changed == frozenset()
    back = pyinfra(DEPLOY).succeeded()
    assert back.changed == {"Door | Door of the replica"}
    assert "Keys and prompts go to port 8000 in the clear" in back.output
    record = spark.run("sudo tail -n 1 /opt/qwen36/state/changes.log").stdout.strip()
    assert re.search(r"inventory/lab.py deploys/spark.py, Sparkwright .+: Door \| Door of", record)
    assert ask(spark).ok


def test_an_idle_spark_serves_nothing(spark: Handle, served: str) -> None:
    with edited(FLEET, lambda fleet: fleet.pop("replicas")):
        pyinfra(DEPLOY).succeeded()
        assert spark.run("systemctl is-enabled 'vllm@*'", check=False).returncode
        assert spark.run("sudo docker ps -q").stdout == ""
        assert pyinfra(DEPLOY).succeeded().changed == frozenset()
        assert "this Spark is idle" in examined()


def test_a_run_killed_while_the_engine_starts(spark: Handle, served: str) -> None:
    """The next run joins the start that is under way."""
    killed_at("engine: ", DEPLOY)
    begun = spark.run(BEGUN).stdout
    pyinfra(DEPLOY).succeeded()
    wait_active(spark)
    assert spark.run(BEGUN).stdout == begun
    assert current(spark) == served
