"""From the factory to a served model, and what a served Spark lives through.

The tests of this module build on one another, in order: a deploy takes a minute.
"""

import json
import subprocess
import sys
import time

import pytest

from tests.e2e.conftest import DEPLOY, PROJECT, TOKEN, command, env, pyinfra
from tests.lab import hub
from tests.lab.lab import Handle

CHAT = {"model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8}
START = 120


def wait_active(spark: Handle, timeout: float = START) -> float:
    """Wait until the engine is active again and answers; return the seconds that it took."""
    begun = time.monotonic()
    while time.monotonic() - begun < timeout:
        answer = spark.run(
            "systemctl is-active 'vllm@*' && curl -sf -H 'Content-Type: application/json' "
            f"-d '{json.dumps(CHAT)}' http://127.0.0.1:8000/v1/chat/completions",
            check=False,
        )
        if answer.returncode == 0:
            return time.monotonic() - begun
        time.sleep(1)
    pytest.fail(f"the engine did not answer within {timeout} s:\n{answer.stdout}")


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
    assert wait_active(spark) < 10


def test_dry_run_said_what_the_real_run_did(planned, served):
    assert planned == served.changed


def test_second_run_changes_nothing(spark, served):
    before = engine(spark)
    again = pyinfra(DEPLOY).succeeded()
    assert again.changed == frozenset()
    assert pyinfra(DEPLOY, "--dry").succeeded().plan == frozenset()
    assert engine(spark) == before


def test_verification(served):
    verify = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/verify", "--inventory", "inventory/lab.py"],
        cwd=PROJECT,
        env=env(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert verify.returncode == 0, verify.stdout
    assert "proved on spark1" in verify.stdout


def test_no_secret_anywhere(spark, served):
    assert TOKEN not in served.output
    assert spark.run("sudo cat /opt/qwen36/secrets/hf-token").stdout.strip() == TOKEN
    found = spark.run(
        f"""sudo sh -c '
        journalctl --no-pager | grep -c {TOKEN[:6]}_lab
        docker inspect $(docker ps -q) | grep -c {TOKEN[:6]}_lab
        systemctl show "*" | grep -c {TOKEN[:6]}_lab
        find /etc /opt /run /tmp /var/tmp /var/log /home -xdev -type f -size -2M \\
          -not -path "*/secrets/*" -exec grep -lI {TOKEN} {{}} +' """,
        check=False,
    ).stdout.split()
    assert found == ["0", "0", "0"]


def test_stop_really_stops(spark, served):
    unit = engine(spark)
    spark.run(f"sudo systemctl stop {unit}")
    assert spark.run("sudo docker ps -q").stdout == ""
    assert spark.run(f"systemctl show -P Result {unit}").stdout.strip() == "success"


def test_a_stopped_engine_is_started_by_a_run(spark, served):
    assert pyinfra(DEPLOY).succeeded().changed == {"Engine | Serve the release"}
    wait_active(spark)


def test_killed_engine_comes_back(spark, served):
    spark.run("sudo pkill -9 -f VLLM::EngineCore")
    time.sleep(1)
    wait_active(spark)
    assert int(spark.run(f"systemctl show -P NRestarts {engine(spark)}").stdout) >= 1


def test_reboot_serves_again(spark, served):
    boot = spark.boot_id()
    spark.run("sudo systemctl reboot", check=False)
    deadline = time.monotonic() + 60
    while spark.run("true", check=False).returncode or spark.boot_id() == boot:
        assert time.monotonic() < deadline
        time.sleep(1)
    spark.wait_ready(START)
    wait_active(spark)
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()


def test_power_cut_serves_again(spark, served):
    spark.power_off()
    spark.power_on()
    spark.wait_ready(START)
    wait_active(spark)


def test_damaged_weights_are_fetched_again(spark, served):
    spark.run("sudo sh -c 'cd /opt/qwen36/tiny; rm config.json; truncate -s -1 tokenizer.json'")
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


def test_an_idle_spark_serves_nothing(spark, served):
    fleet = PROJECT / "inventory/lab.yaml"
    text = fleet.read_text()
    try:
        fleet.write_text(text[: text.index("replicas:")])
        pyinfra(DEPLOY).succeeded()
        assert spark.run("systemctl is-enabled 'vllm@*'", check=False).returncode
        assert spark.run("sudo docker ps -q").stdout == ""
        assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    finally:
        fleet.write_text(text)


def test_ctrl_c_is_no_end(spark, served):
    """A run that is killed while the engine starts is continued by the next."""
    run = subprocess.Popen(
        [*command("inventory/lab.py"), DEPLOY, "-y"],
        cwd=PROJECT,
        env=env(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert run.stdout
    for line in run.stdout:
        if "engine: " in line:
            break
    run.kill()
    run.wait()
    begun = spark.run("systemctl show -P ExecMainStartTimestampMonotonic 'vllm@*'").stdout
    pyinfra(DEPLOY).succeeded()
    wait_active(spark)
    assert spark.run("systemctl show -P ExecMainStartTimestampMonotonic 'vllm@*'").stdout == begun
