"""From the factory to a served model, and what a served Spark lives through.

The tests of this module build on one another, in order: a deploy takes a minute.
"""

import json
import re
import subprocess
import time

import pytest
import requests

from deploys.keys import api_keys
from tests.e2e.client import PORT, said
from tests.e2e.conftest import DEPLOY, PROJECT, TOKEN, killed_at, pyinfra, verification
from tests.e2e.declared import BROKEN, changed, edited
from tests.e2e.sparks import until
from tests.lab import hub
from tests.lab.spark import Handle
from tests.lab.state import FLEET

START = 120


def wait_active(spark: Handle, timeout: float = START) -> None:
    """Wait until the engine is active and answers."""
    until(spark, "systemctl is-active 'vllm@*'", timeout)
    deadline = time.monotonic() + timeout
    while not said(spark):
        assert time.monotonic() < deadline, "the door has no good answer"
        time.sleep(1)


def engine(spark: Handle) -> str:
    """Return the unit that is active."""
    return spark.run(
        "systemctl list-units --plain --no-legend 'vllm@*' | cut -d' ' -f1"
    ).stdout.strip()


@pytest.fixture(scope="module")
def planned(spark):
    """What a dry run on the clean Spark says would change."""
    spark.reset()
    return pyinfra(DEPLOY, "--dry").succeeded().plan


@pytest.fixture(scope="module")
def served(spark, planned):
    """The run that takes the clean Spark to a served model."""
    return pyinfra(DEPLOY, "-vvv", "--diff", "--debug").succeeded()


def test_dry_run_changes_nothing(spark, planned):
    assert planned
    assert spark.run("ls /opt").stdout == ""


def test_from_factory_to_served(spark, served):
    wait_active(spark, timeout=10)


def test_dry_run_said_what_the_real_run_did(planned, served):
    assert planned == served.changed


def test_second_run_changes_nothing(spark, served):
    before = engine(spark)
    again = pyinfra(DEPLOY).succeeded()
    assert again.changed == frozenset()
    assert pyinfra(DEPLOY, "--dry").succeeded().plan == frozenset()
    assert engine(spark) == before


def test_verification(served):
    assert "proved on spark1" in verification()


def test_every_endpoint_of_the_engine_through_the_door(spark, served):
    """Those that its own description lists: /v1 wants the key, and all else is not there."""
    (key,) = api_keys(FLEET)
    release = json.loads(spark.run("cat /opt/qwen36/current/release.json").stdout)
    listing = f"curl -sS http://127.0.0.1:{release['port']}/openapi.json"
    endpoints = [
        (method.upper(), re.sub(r"{.*?}", "x", path))
        for path, methods in json.loads(spark.run(listing).stdout)["paths"].items()
        for method in methods
    ]
    seen = {(method, path): [] for method, path in endpoints}
    for (method, path), statuses in seen.items():
        for given in (None, "sk-wrong-and-long-enough-for-one", key):
            head = {"Authorization": f"Bearer {given}"} if given else {}
            url = f"http://{spark.address}:{PORT}{path}"
            body = {} if method == "POST" else None
            answer = requests.request(method, url, headers=head, json=body, timeout=60)
            statuses.append(answer.status_code)
    closed = {path for (_, path), statuses in seen.items() if statuses == [404] * 3}
    opened = {
        path
        for (_, path), statuses in seen.items()
        if statuses[:2] == [401, 401] and statuses[2] not in (401, 403)
    }
    free = {path for (_, path), statuses in seen.items() if statuses == [200] * 3}
    assert closed | opened | free == {path for _, path in endpoints}, seen
    assert free == {"/health"}
    assert {"/v1/models", "/v1/chat/completions", "/v1/completions"} <= opened
    assert all(path.startswith("/v1/") or path == "/metrics" for path in opened)
    assert {"/invocations", "/tokenize", "/version"} <= closed


def test_no_secret_anywhere(spark, served):
    (key,) = api_keys(FLEET)
    assert TOKEN not in served.output
    assert key not in served.output
    assert spark.run("sudo cat /opt/qwen36/secrets/hf-token").stdout.strip() == TOKEN
    # The journal holds every command line that sudo ran. The pattern does not match itself.
    search = f"""
        pattern='{TOKEN[:-1]}[{TOKEN[-1]}]\\|{key[:-1]}[{key[-1]}]'
        journalctl --no-pager --output=export | grep -a "$pattern"
        docker inspect $(docker ps -q) | grep "$pattern"
        systemctl show '*' | grep "$pattern"
        grep -la "$pattern" /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null
        find / -xdev -type f -size -4M -not -path '*/secrets/*' -exec grep -la "$pattern" {{}} +
        true
    """
    assert spark.run("sudo sh -s", stdin=search).stdout == ""


def test_stop_really_stops(spark, served):
    unit = engine(spark)
    spark.run(f"sudo systemctl stop {unit}")
    assert spark.run("sudo docker ps -q").stdout == ""
    assert spark.run(f"systemctl show -P Result {unit}").stdout.strip() == "success"


def test_a_stopped_engine_is_started_by_a_run(spark, served):
    assert pyinfra(DEPLOY).succeeded().changed == {"Engine | Serve the release"}
    wait_active(spark)


def test_killed_engine_comes_back(spark, served):
    unit = engine(spark)
    spark.run("sudo pkill -9 VLLM::EngineCor")
    until(spark, f"test $(systemctl show -P NRestarts {unit}) = 1", 60)
    wait_active(spark)


def test_an_engine_that_hangs_is_restarted(spark, served):
    """It goes on answering /health: only a token that does not come tells."""
    unit = engine(spark)
    restarts = f"systemctl show -P NRestarts {unit}"
    before = int(spark.run(restarts).stdout)
    spark.run("sudo pkill -STOP VLLM::EngineCor")
    assert requests.get(f"http://{spark.address}:{PORT}/health", timeout=10).ok
    until(spark, f"test $({restarts}) -gt {before}", 90)
    assert "no token" in spark.run(f"sudo journalctl -u {unit} | grep 'engine ended'").stdout
    wait_active(spark)


def test_reboot_serves_again(spark, served):
    spark.reboot()
    wait_active(spark)
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()


def test_power_cut_serves_again(spark, served):
    spark.power_off()
    spark.power_on()
    spark.wait_ready(START)
    wait_active(spark)


def test_damaged_weights_are_fetched_again(spark, served):
    spark.run("sudo sh -c 'cd /opt/qwen36/tiny@*; rm config.json; truncate -s -1 tokenizer.json'")
    before = hub.stats()
    assert pyinfra(DEPLOY).succeeded().changed == {"Weights | Checkpoints"}
    fetched = {
        name.rsplit("/", 1)[1]
        for name, seen in hub.stats().items()
        if seen["bytes"] > before.get(name, {"bytes": 0})["bytes"]
    }
    assert fetched == {"config.json", "tokenizer.json"}


def test_from_the_spark_itself(spark, served):
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
        "replicas: {lab1: {recipe: lab-tiny, sparks: [spark1]}}\n"
    )
    spark.run("cat > sparkwright/inventory/lab.yaml", stdin=fleet)
    keys = "umask 077; cat > sparkwright/inventory/lab.keys"
    spark.run(keys, stdin="\n".join(api_keys(FLEET)))
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


class TestBadRecipe:
    """A recipe that vLLM refuses: the reason is said, and nothing runs in circles."""

    @staticmethod
    def failed(spark):
        """Return the release that came last."""
        return spark.run("ls -t /opt/qwen36/releases | grep broken | head -n 1").stdout.strip()

    def test_an_unknown_flag_is_not_tried_again(self, spark, served):
        with changed("broken", BROKEN):
            run = pyinfra(DEPLOY)
        assert run.status == 1
        assert "does not know a flag" in run.output
        assert "serves again" in run.output
        unit = self.failed(spark)
        spark.run(f"sudo systemctl start vllm@{unit}", check=False)
        shown = spark.run(f"systemctl show -P NRestarts -P SubState vllm@{unit}").stdout.split()
        assert sorted(shown) == ["0", "failed"]

    def test_a_failing_start_is_tried_five_times(self, spark, served):
        with changed("broken", ("max-model-len: 4096", "max-model-len: 99999999")):
            run = pyinfra(DEPLOY)
        assert run.status == 1
        assert "max_model_len" in run.output
        unit = self.failed(spark)
        # The reason was said: what follows need not wait for vLLM to find it five times.
        failing = f"sudo tee /opt/qwen36/releases/{unit}/run"
        spark.run(failing, stdin="#!/bin/sh\nexit 1\n")
        spark.run(f"sudo systemctl start --no-block vllm@{unit}")
        until(spark, f"systemctl is-failed vllm@{unit}", 300)
        # The fifth of these is refused.
        assert spark.run(f"systemctl show -P NRestarts vllm@{unit}").stdout.strip() == "5"

    def test_the_former_recipe_serves_again(self, spark, served):
        pyinfra(DEPLOY).succeeded()
        wait_active(spark)


def test_an_idle_spark_serves_nothing(spark, served):
    with edited(FLEET, lambda fleet: fleet.pop("replicas")):
        pyinfra(DEPLOY).succeeded()
        assert spark.run("systemctl is-enabled 'vllm@*'", check=False).returncode
        assert spark.run("sudo docker ps -q").stdout == ""
        assert pyinfra(DEPLOY).succeeded().changed == frozenset()


def test_a_run_killed_while_the_engine_starts(spark, served):
    """The next run joins the start that is under way."""
    killed_at("engine: ", DEPLOY)
    begun = spark.run("systemctl show -P ExecMainStartTimestampMonotonic 'vllm@*'").stdout
    pyinfra(DEPLOY).succeeded()
    wait_active(spark)
    assert spark.run("systemctl show -P ExecMainStartTimestampMonotonic 'vllm@*'").stdout == begun
