"""A change of what a Spark serves: nothing is lost where both engines fit, and a bad one is undone.

The tests build on one another, in order; clients go on asking meanwhile.
"""

import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from deploys.plan.lock import lock_path
from tests.e2e.client import ask, said
from tests.e2e.conftest import DEPLOY, PROJECT, background, env, killed_at, pyinfra
from tests.e2e.declared import BROKEN, changed, seed
from tests.e2e.load import load
from tests.e2e.sparks import current, forget, until
from tests.lab import hub, services
from tests.lab.spark import Handle
from tests.lab.state import FLEET

TRIAL = ("--data", "trial_seconds=75")
REPO = "sparkwright/tiny-qwen3.5-moe"
QUICKLY = ("start_timeout: 300", "start_timeout: 60")


def engines(spark: Handle) -> set[str]:
    """Return the units that are active or will be at boot."""
    states = "--state=active,activating"
    command = (
        f"systemctl list-units --plain --no-legend {states} 'vllm@*' | cut -d' ' -f1; "
        "ls /etc/systemd/system/multi-user.target.wants | grep '^vllm@'"
    )
    return set(spark.run(command).stdout.split())


def weights(spark: Handle) -> list[str]:
    """Return the folders of the model, one for each commit."""
    return spark.run("ls -d /opt/qwen36/tiny@*").stdout.split()


def standing(spark: Handle) -> tuple[str, set[str], bool]:
    """Return the release that boots, the units of engines, and whether one answers."""
    return current(spark), engines(spark), bool(said(spark))


def only(release: str) -> tuple[str, set[str], bool]:
    """What `standing` returns where that release serves, boots, and is the only one."""
    return release, {f"vllm@{release}.service"}, True


def engine_core(spark: Handle, container: str, timeout: float = 120) -> str:
    """Wait for the process that computes in a container; return its id on the Spark."""
    find = f"sudo docker top {container} -eo pid,comm | awk '/EngineCor/ {{print $1; exit}}'"
    deadline = time.monotonic() + timeout
    while not (found := spark.run(find, check=False).stdout.strip()):
        assert time.monotonic() < deadline, f"no engine in {container}"
        time.sleep(1)
    return found


def newest(spark: Handle, former: str, timeout: float = 120) -> str:
    """Wait for an engine beside or after the former one; return its release."""
    find = "sudo docker ps --format '{{.Names}}' --filter label=sparkwright.release"
    deadline = time.monotonic() + timeout
    while True:
        names = [name.removeprefix("vllm-") for name in spark.run(find).stdout.split()]
        if others := [name for name in names if name != former]:
            return others[0]
        assert time.monotonic() < deadline, "no other engine was started"
        time.sleep(1)


@pytest.fixture(scope="module")
def served(spark: Handle) -> str:
    """The release that serves at first."""
    pyinfra(DEPLOY).succeeded()
    forget(spark)
    return current(spark)


def test_a_switch_loses_no_request(spark: Handle, served: str) -> None:
    with load(spark) as seen:
        with changed("other", seed(1)):
            run = pyinfra(DEPLOY).succeeded()
            assert pyinfra(DEPLOY).succeeded().changed == frozenset()
        after = len(seen.answers)
        deadline = time.monotonic() + 120
        while len(seen.answers) < after + 8:
            assert time.monotonic() < deadline
            time.sleep(0.2)
    assert seen.failed == [], run.output
    assert current(spark).startswith("lab-other-")
    assert engines(spark) == {f"vllm@{current(spark)}.service"}


def test_the_way_back_loses_none_either(spark: Handle, served: str) -> None:
    with load(spark) as seen:
        run = pyinfra("deploys/rollback.py").succeeded()
    assert seen.failed == [], run.output
    assert standing(spark) == only(served)
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()


def test_another_commit_of_the_model(spark: Handle, served: str, tmp_path: Path) -> None:
    """What differs is fetched, into a folder of its own: the way back has what it had."""
    lock, source = lock_path(FLEET), services.HUB / REPO
    text = lock.read_text()
    shutil.copytree(source / "v1", tmp_path / "new")
    with (tmp_path / "new/generation_config.json").open("a") as file:
        file.write("\n")
    hub.add_commit(services.HUB, REPO, tmp_path / "new")
    words = ["deploys.lock", str(FLEET), "--refresh", "--hf-endpoint", hub.URL]
    try:
        subprocess.run([sys.executable, "-m", *words], cwd=PROJECT, env=env(), check=True)
        before = hub.stats()
        with load(spark) as seen:
            run = pyinfra(DEPLOY).succeeded()
            assert current(spark) != served
            assert pyinfra(DEPLOY).succeeded().changed == frozenset()
            pyinfra("deploys/rollback.py").succeeded()
        fetched = [name for name, sent in hub.stats().items() if sent != before.get(name)]
    finally:
        lock.write_text(text)
    assert seen.failed == [], run.output
    assert fetched == [f"{REPO}/generation_config.json"]
    assert standing(spark) == only(served)
    assert pyinfra(DEPLOY).succeeded().changed == frozenset()
    assert len(weights(spark)) == 2


def test_a_release_that_cannot_start(spark: Handle, served: str) -> None:
    with load(spark) as seen, changed("broken", BROKEN):
        run = pyinfra(DEPLOY)
    assert run.status == 1
    assert "does not know a flag" in run.output
    assert f"{served} serves" in run.output
    assert seen.failed == []
    assert standing(spark) == only(served)


def test_a_release_that_answers_nothing(spark: Handle, served: str) -> None:
    """It stands still as soon as it computes: HTTP goes on, and no token ever comes."""

    def hold() -> None:
        name = newest(spark, served)
        spark.run(f"sudo kill -STOP {engine_core(spark, f'vllm-{name}')}")

    with load(spark) as seen, changed("mute", seed(2), QUICKLY):
        thread = threading.Thread(target=hold)
        thread.start()
        run = pyinfra(DEPLOY)
        thread.join()
    assert run.status == 1
    assert f"{served} serves" in run.output
    assert seen.failed == []
    assert standing(spark) == only(served)


def test_a_release_that_dies_after_a_minute(spark: Handle, served: str) -> None:
    """Its clients lose what it had in its hands; new requests go to the former one at once."""
    killed = []

    def kill() -> None:
        name = newest(spark, served)
        until(spark, f"systemctl is-active vllm@{name}", 120)
        time.sleep(60)
        core = engine_core(spark, f"vllm-{name}")
        killed.append(time.monotonic())
        spark.run(f"sudo kill -9 {core}")

    with load(spark) as seen, changed("frail", seed(3)):
        thread = threading.Thread(target=kill)
        thread.start()
        run = pyinfra(DEPLOY, *TRIAL)
        thread.join()
    assert run.status == 1
    assert f"{served} serves" in run.output
    assert all(answer.ended > killed[0] for answer in seen.failed)
    assert seen.gap < 15
    assert standing(spark) == only(served)


def test_a_run_that_is_killed_in_mid_switch(spark: Handle, served: str) -> None:
    """The switch goes on without it; the next run finds it done, or joins it."""
    with load(spark) as seen, changed("other", seed(1)):
        killed_at("engine: ", DEPLOY)
        pyinfra(DEPLOY).succeeded()
        assert current(spark).startswith("lab-other-")
    assert seen.failed == []
    pyinfra("deploys/rollback.py").succeeded()
    assert standing(spark) == only(served)


def test_a_power_cut_in_mid_switch(spark: Handle, served: str) -> None:
    """The former release boots, as if nothing had been; the run is finished by running it again."""
    with changed("other", seed(1)), background(DEPLOY) as run:
        newest(spark, served)
        spark.power_off()
        run.kill()
    spark.power_on()
    spark.wait_ready(120)
    deadline = time.monotonic() + 120
    while not said(spark):
        assert time.monotonic() < deadline
        time.sleep(1)
    assert standing(spark) == only(served)
    with changed("other", seed(1)):
        pyinfra(DEPLOY).succeeded()
        assert current(spark).startswith("lab-other-")
    pyinfra(DEPLOY).succeeded()


def test_clean_keeps_what_may_be_needed(spark: Handle, served: str) -> None:
    pyinfra(DEPLOY).succeeded()
    kept = current(spark)
    before = spark.run("ls /opt/qwen36/releases").stdout.split()
    dry = pyinfra("deploys/clean.py", "--dry").succeeded()
    assert any(name in dry.output for name in before if name != kept)
    assert spark.run("ls /opt/qwen36/releases").stdout.split() == before
    pyinfra("deploys/clean.py").succeeded()
    # What has never served is nothing to go back to.
    other, *tiny = spark.run("ls /opt/qwen36/releases").stdout.split()
    assert other.startswith("lab-other-")
    assert kept in tiny
    assert len(tiny) == len(weights(spark)) == 2
    assert pyinfra("deploys/clean.py").succeeded().changed == frozenset()
    pyinfra("deploys/clean.py", "--data", "keep_releases=0").succeeded()
    assert spark.run("ls /opt/qwen36/releases").stdout.split() == [kept]
    assert len(weights(spark)) == 1
    assert ask(spark).ok
