"""Shards: what a command does in one stays there, and ends with it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lab.state import PROJECT, SHARD, wait_for
from tests.programs import ended

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="a shard needs root"),
    pytest.mark.skipif(not shutil.which("slirp4netns"), reason="a shard needs slirp4netns"),
    pytest.mark.skipif(bool(SHARD), reason="this runs in a shard already"),
]
# What this test's processes alone sleep for.
SLEEP = f"sleep {os.getpid()}000"


@pytest.fixture
def name(request):
    return f"test-{os.getpid()}-{request.node.name.replace('_', '-')[:20]}"


def shard(name, *command):
    return [sys.executable, "-m", "tests.lab.shard", name, "--", *command]


def done(name, *command):
    """Run a command in a shard to its end."""
    return ended(shard(name, *command), cwd=PROJECT)


def traces(name):
    """Return what is left of a shard on the machine."""
    shown = ended(["ps", "-ww", "-eo", "stat=,args="])
    shown.check_returncode()
    processes = [line for line in shown.stdout.splitlines() if name in line or SLEEP in line]
    mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if name in line]
    groups = list(Path("/sys/fs/cgroup").rglob(f"sparkwright-lab-{name}"))
    return [*processes, *mounts, *groups]


def test_the_commands_status_and_output(name):
    answer = done(name, "sh", "-c", "echo said; exit 7")
    assert (answer.returncode, answer.stdout) == (7, "said\n"), answer.stderr
    assert done(name, "sh", "-c", "kill -9 $$").returncode == 137


def test_killed_it_leaves_nothing_that_runs(name):
    # Its children are in sessions of their own, as a lab's supervisors are.
    script = f"setsid {SLEEP} & echo ready; wait"
    command = shard(name, "sh", "-c", script)
    process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    assert len(traces(name)) > 2
    process.kill()
    process.wait()
    wait_for(lambda: not traces(name), 30, "the shard's processes to end")
    assert done(name, "true").returncode == 0
