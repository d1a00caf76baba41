"""A Spark answers SSH whatever takes all of its memory, processes, log or disk, and serves again.

The lab shows OOM scores, the container's bounds and those of the log. It does not show what systemd
sets of control groups, whose controllers are not its own there (MemoryMin, CPUWeight, TasksMax: so
no fork bomb goes off in a session), nor earlyoom, as /proc/meminfo is the machine's, nor negative
OOM scores, which the machine's root may not be allowed.
"""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.clock import patience
from tests.driver import bombs
from tests.driver.product import DEPLOY, pyinfra
from tests.driver.sparks import current, eventually, forget, unit, until, wait_active
from tests.lab import machine as machines
from tests.lab.spark import Handle

HOST = "sparkwright.machine.host.deploy.apply"
# Seconds within which a login must have answered, and how many are made.
ANSWERS, LOGINS = 2, 5
# The same while all memory is full, and nobody comes before the kernel, as earlyoom does.
FULL = 15
# How much longer than on a calm Spark they may take, on a machine on which that is long.
SLOWER = 5
# Takes what there is, in ever smaller pieces.
FILL = """size = 1 << 40
while size > 1 << 12:
    try:
        os.posix_fallocate(fill, os.fstat(fill).st_size, size)
    except OSError:
        size >>= 1
"""
WATCHDOG = "/etc/systemd/system.conf.d/sparkwright.conf"


@pytest.fixture(scope="module")
def serving(spark: Handle) -> Iterator[Handle]:
    """A Spark with a disk of its own, which serves, and has no more memory than its bombs may."""
    spark.reset("own-disk")
    pyinfra(DEPLOY).succeeded()
    forget(spark)
    yield spark
    spark.bound()


def login(spark: Handle) -> float:
    """Return the seconds of a login, of a connection of its own, and of a command."""
    program, *options = spark.ssh_command("true")
    began = time.monotonic()
    subprocess.run([program, "-o", "ControlPath=none", *options], check=True, timeout=patience(60))
    return time.monotonic() - began


@contextmanager
def bombed(spark: Handle, answers: float = ANSWERS, clean: str = "true") -> Iterator[None]:
    """Let logins in while a bomb, set in the block, goes off; then wait until it serves again.

    They take as long as ever, where that is long: other labs may run on the machine.

    Args:
        answers: seconds within which a login must have answered.
        clean: what root does afterwards.
    """
    calm = max(login(spark) for _ in range(3))
    bombs.bound(spark)
    try:
        yield
        took = [login(spark) for _ in range(LOGINS)]
    finally:
        bombs.end(spark)
        spark.run("sudo sh -s", stdin=clean)
    print(f"seconds of logins: {calm:.1f}, then", *(f"{each:.1f}" for each in took))
    assert max(took) < max(patience(answers), SLOWER * calm)
    wait_active(spark)


@pytest.mark.parametrize("where", ["session", "engine"])
def test_a_memory_bomb(serving: Handle, where: str) -> None:
    refused = machines.refused_memory(serving.name)
    start = bombs.in_session if where == "session" else bombs.in_engine
    # The engine's goes on for long before the kernel ends it: earlyoom would at 2 % of memory.
    with bombed(serving, answers=ANSWERS if where == "session" else FULL):
        start(serving, bombs.HOG)
        eventually(lambda: machines.refused_memory(serving.name) > refused + 100, "a full memory")
    forget(serving)


def test_a_fork_bomb_in_the_engine_ends_at_its_containers_bound(serving: Handle) -> None:
    """Killed processes count until the engine ends, as nothing in its container reaps them."""
    name = f"vllm-{current(serving)}"
    count = f"sudo docker stats --no-stream --format '{{{{.PIDs}}}}' {name}"
    with bombed(serving, clean=f"systemctl restart {unit(serving)}"):
        assert bombs.in_engine(serving, bombs.FORKS)
        eventually(lambda: int(serving.run(count).stdout) > bombs.FORKED - 20, "a full container")
    forget(serving)


def test_floods_of_the_log(serving: Handle) -> None:
    """journald drops them, and says so when their 30 s are over."""
    said = "journalctl --since=-1min _COMM=systemd-journal | grep -c 'Suppressed .* messages'"
    with bombed(serving):
        bombs.in_session(serving, f"{bombs.FLOOD} | systemd-cat --identifier=flood")
        assert bombs.in_engine(serving, f"{bombs.FLOOD} > /proc/1/fd/1")
        until(serving, f"test $(sudo {said}) -ge 2")
    used = serving.run("sudo du -sm /var/log/journal").stdout.split()[0]
    assert int(used) < 2048


def test_an_engine_that_fills_the_disk(serving: Handle) -> None:
    """By what it compiles. The lab's disks keep nothing for root, as a Spark's do (5 % of ext4)."""
    home = "/home/engine/fill"
    fill = f"import os; fill = os.open({home!r}, os.O_CREAT | os.O_WRONLY)\n{FILL}"
    free = "df --output=avail --block-size=1M /opt | tail -n 1"
    with bombed(serving, clean="rm /opt/qwen36/cache/*/*/fill"):
        serving.run(f"sudo docker exec --interactive vllm-{current(serving)} python3 -", stdin=fill)
        assert int(serving.run(free).stdout) < 2
        # What is killed now starts again when there is room.
        serving.run("sudo pkill -KILL -f 'bin/[e]ngine /opt'")
    forget(serving)


def test_a_watchdog_that_comes_and_goes(serving: Handle) -> None:
    """The device is a file that takes no ping: systemd says so, and goes on."""
    seconds = (
        "busctl get-property org.freedesktop.systemd1 /org/freedesktop/systemd1 "
        "org.freedesktop.systemd1.Manager RuntimeWatchdogUSec"
    )
    assert pyinfra(HOST).succeeded().changed == frozenset()
    serving.run("sudo touch /dev/watchdog0")
    try:
        assert pyinfra(HOST).succeeded().changed == {"Host | Watchdog"}
        assert serving.run(seconds).stdout == "t 60000000\n"
        assert pyinfra(HOST).succeeded().changed == frozenset()
    finally:
        serving.run("sudo rm /dev/watchdog0")
    assert pyinfra(HOST).succeeded().changed == {"Host | Watchdog"}
    assert serving.run(seconds).stdout == "t 0\n"
    assert serving.run(f"ls {WATCHDOG}", check=False).returncode


def test_what_the_host_keeps(serving: Handle) -> None:
    """As systemd has it; MemoryMin is in force with cgroup v2 alone."""
    expected = {
        "system.slice": {"MemoryMin": "1073741824", "CPUWeight": "400"},
        "user.slice": {"MemoryMin": "268435456"},
        "init.scope": {"MemoryMin": "67108864", "CPUWeight": "400"},
        "ssh.service": {"MemoryMin": "33554432"},
        "earlyoom.service": {"OOMScoreAdjust": "-900"},
        unit(serving): {"LimitCORE": "0", "OOMScoreAdjust": "-900"},
    }
    for name, values in expected.items():
        shown = serving.run(f"systemctl show {name} --property={','.join(values)}").stdout
        assert dict(line.split("=") for line in shown.split()) == values, name
    # As logind makes them, without a bound of their own.
    scope = "--scope --quiet --unit=session-9.scope --property=TasksMax=infinity"
    show = "systemctl show -P TasksMax session-9.scope"
    assert serving.run(f"sudo systemd-run {scope} {show}").stdout == "12288\n"
    inside = f"sudo docker exec vllm-{current(serving)} sh -c"
    found = serving.run(f"{inside} 'ulimit -c; cat /proc/1/oom_score_adj'").stdout
    assert found.split() == ["0", "500"]
    assert serving.run("cat /proc/self/oom_score_adj").stdout == "0\n"
