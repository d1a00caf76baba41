"""The standby of a Spark, with real Docker and systemd: whatever happens, it is taken or gone."""

import json
import time

import pytest

from tests.driver.declared import changed
from tests.driver.product import DEPLOY, pyinfra
from tests.driver.sparks import current, eventually, forget, standing, until, wait_active
from tests.lab.spark import Handle
from tests.system.test_update import ALONE

LABEL = "sudo docker ps --all --format '{{.Names}}' --filter label=sparkwright.release"
IDENTITY = "sudo docker inspect --format '{{.Id}}' "
# What is left of engines that have ended: shared memory, processes, mounts of containers.
LEFT = (
    "pgrep -c VLLM:: ; pgrep -fc 'docker (run|attach)'; ls /dev/shm | wc -l; "
    "sudo sh -c 'ls /var/lib/docker/containers | wc -l'; grep -c /var/lib/docker/ /proc/mounts"
)
# Seconds of the program, which are in its archive as they are in its text.
SETTLED, SOON = "SIGN, HEEDED, FORGOTTEN = 60.0", "SIGN, HEEDED, FORGOTTEN = 02.0"
KILLS = [6, pytest.param(50, marks=pytest.mark.campaign)]


def waits(spark: Handle) -> str:
    """Wait for a standby that waits; return its id."""
    release = current(spark)
    until(spark, f"test -e /opt/qwen36/state/standby@{release}/waits", timeout=300)
    return spark.run(f"{IDENTITY} vllm-{release}-standby").stdout.strip()


def engine(spark: Handle) -> str:
    return spark.run(f"{IDENTITY} vllm-{current(spark)}", check=False).stdout.strip()


def containers(spark: Handle) -> set[str]:
    return set(spark.run(LABEL).stdout.split())


def log(spark: Handle) -> str:
    return spark.run(f"sudo journalctl --no-pager -u vllm@{current(spark)}").stdout


@pytest.fixture(autouse=True)
def fresh(with_standbys: None, spark: Handle, served: str) -> None:
    """Start each test with an engine that serves; its standby settles soon."""
    program = f"/opt/qwen36/releases/{served}/bin/engine"
    spark.run(f"sudo sed -i 's/{SETTLED}/{SOON}/' {program} && sudo grep -q '{SOON}' {program}")
    forget(spark)
    spark.run(f"sudo systemctl restart --no-block vllm@{served}")
    until(spark, f"systemctl show -P SubState vllm@{served} | grep -q running")
    wait_active(spark)


def test_a_killed_engine_is_followed_by_its_standby(spark: Handle, served: str) -> None:
    standby = waits(spark)
    looked = pyinfra("deploys/status.py", "--data", "json=-").succeeded().output
    assert '"standby": true' in looked
    spark.run(f"sudo docker kill vllm-{served}")
    eventually(lambda: engine(spark) == standby, "the standby as the engine")
    wait_active(spark)
    assert waits(spark) != standby
    assert containers(spark) == {f"vllm-{served}", f"vllm-{served}-standby"}
    assert "its exit status was 137" in log(spark)
    # What attach tells of the end of the one that was taken.
    spark.run(f"sudo docker kill vllm-{served}")
    eventually(lambda: log(spark).count("its exit status was 137") == 2, "its exit status")
    wait_active(spark)


def test_a_stop_leaves_none(spark: Handle, served: str) -> None:
    waits(spark)
    spark.run(f"sudo systemctl stop vllm@{served}")
    assert containers(spark) == set()
    assert spark.run("ls /opt/qwen36/state").stdout.count("standby@") == 0
    assert "running@" not in spark.run("ls /opt/qwen36/state").stdout


def test_a_killed_supervisor_leaves_its_standby_to_the_next(spark: Handle, served: str) -> None:
    standby = waits(spark)
    spark.run(f"sudo systemctl kill --kill-whom=main -s KILL vllm@{served}")
    eventually(lambda: engine(spark) == standby, "the standby as the engine")
    wait_active(spark)
    waits(spark)


def test_after_a_power_cut_there_is_nothing_to_wait_with(spark: Handle, served: str) -> None:
    standby = waits(spark)
    spark.power_off()
    spark.power_on()
    spark.wait_ready()
    wait_active(spark)
    assert engine(spark) != standby
    assert waits(spark) != standby
    forget(spark)


@pytest.mark.parametrize("kills", KILLS)
def test_kills_in_a_row_leave_nothing(spark: Handle, served: str, kills: int) -> None:
    waits(spark)
    before = spark.run(LEFT, check=False).stdout
    for number in range(kills):
        forget(spark)
        # Half of them while a standby starts, or before.
        standby, killed = waits(spark) if number % 2 else "", engine(spark)
        spark.run(f"sudo docker kill vllm-{served}")
        eventually(lambda killed=killed: engine(spark) not in ("", killed), "the next engine")
        assert not standby or engine(spark) == standby
        wait_active(spark)
    wait_active(spark)
    waits(spark)
    # Who was attached to the last one that was killed ends a moment after it.
    eventually(lambda: spark.run(LEFT, check=False).stdout == before, "nothing to be left")
    assert containers(spark) == {f"vllm-{served}", f"vllm-{served}-standby"}


def test_a_switch_has_the_new_release_wait_first(spark: Handle, served: str) -> None:
    """Where both do not fit: the gap is shorter by what needs no GPU; the old standby is gone."""
    waits(spark)
    with changed("alone", ALONE):
        pyinfra(DEPLOY).succeeded()
        new = current(spark)
    assert new != served
    assert "preparing" in spark.run(f"sudo journalctl --no-pager -u switch@{new}").stdout
    assert "its standby goes on as the engine" in log(spark)
    assert f"vllm-{served}-standby" not in containers(spark)
    report = json.loads(spark.run(f"cat /opt/qwen36/jobs/switch@{new}.json").stdout)
    print(f"gap {report['gap']} s of {report['seconds']} s")
    begun = time.monotonic()
    pyinfra("deploys/rollback.py").succeeded()
    print(f"the way back: {time.monotonic() - begun:.0f} s")
    assert standing(spark)[0] == served
    assert f"vllm-{new}-standby" not in containers(spark)
