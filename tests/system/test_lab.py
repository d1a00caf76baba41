"""The lab itself: two Sparks, their switches and their LAN, and that nothing stays when it is gone.

The tests build on one another, in order, and leave no lab.
"""

import time
from pathlib import Path

import pytest

from tests.clock import patience
from tests.driver.product import here
from tests.lab import state
from tests.lab.cache import cache_folder
from tests.lab.lab import Lab
from tests.lab.spark import Handle
from tests.lab.state import FLEET, RUN, SHARD, STORAGE, Engine

pytestmark = pytest.mark.lab


def differences(before: dict[str, set[str]], after: dict[str, set[str]]) -> list[str]:
    """Return the lines of one snapshot only, but for processes and mounts that have ended."""
    came = {what: lines - before[what] for what, lines in after.items()}
    went = {what: before[what] - lines for what, lines in after.items()}
    went |= {"processes": set(), "mounts": set()}
    return sorted(f"{what}: {line}" for what in after for line in came[what] | went[what])


def snapshot() -> dict[str, set[str]]:
    """Return all that `down` promises to leave as it was, by lines."""
    group = f"sparkwright-lab-{SHARD}" if SHARD else "sparkwright-lab"
    commands = {
        "interfaces": "ip -brief address | sort",
        "routes": "ip route",
        "rules": "iptables-save | grep '^-A' || true",
        # Other programs may build in the cache meanwhile.
        "mounts": f"grep -v ' {cache_folder()}/' /proc/self/mounts",
        # Another shard may make or end its own meanwhile.
        "loops": f"losetup --all | grep -F {STORAGE} || true",
        "groups": f"find /sys/fs/cgroup -path '*/{group}' -o -path '*/{group}/*'",
        "processes": "ps -eo stat=,args= | grep -E '10[.]213[.]0[.]1|tests[.]lab[.]|"
        "docker-registry serv[e]|sparkwright-la[b]' | grep -v ^Z || true",
        "kernel": "sysctl net.ipv4.ip_forward vm.swappiness",
        "folders": f"ls -d {RUN} {STORAGE} {FLEET} || true",
    }
    said = {what: here("sh", "-c", line, check=True).stdout for what, line in commands.items()}
    return {what: set(text.splitlines()) for what, text in said.items()}


@pytest.fixture(scope="module")
def before(machine: None) -> dict[str, set[str]]:
    """The machine without a lab."""
    Lab().down()
    return snapshot()


@pytest.fixture(scope="module")
def two(before: dict[str, set[str]], engine: Engine) -> list[Handle]:
    Lab().up(2, engine=engine)
    return Lab().sparks()


def test_reset_is_the_factory_state_and_as_quick_as_a_boot(two):
    spark = two[1]
    begun = time.monotonic()
    spark.reboot()
    boot = time.monotonic() - begun
    spark.run("sudo touch /etc/mark /var/lib/docker/mark")
    spark.cable(False, port=1)
    spark.mtu(1500)
    begun = time.monotonic()
    spark.reset("driver-570")
    assert time.monotonic() - begun < 3 * boot
    assert spark.run("sudo ls /etc/mark /var/lib/docker/mark", check=False).stdout == ""
    version = "nvidia-smi --query-gpu=driver_version --format=csv,noheader"
    assert spark.run(version).stdout.startswith("570.")
    spark.reset()
    assert spark.run(version).stdout.startswith("580.")
    assert spark.record().cable == state.Cable()


def test_down_leaves_nothing(two, before):
    Lab().spark("spark1").run("sudo sysctl -w vm.swappiness=11; sudo docker ps")
    Lab().down()
    # Other tests may run beside this one: what they begin, they end.
    deadline = time.monotonic() + patience()
    while found := differences(before, snapshot()):
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
    assert not Path("/run/sparkwright-lab").exists()
    Lab().down()
