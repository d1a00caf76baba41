"""The lab itself: two Sparks, their switches and their LAN, and that nothing stays when it is gone.

The tests build on one another, in order, and leave no lab; test_lab_fabric is about the cables.
"""

import time
from pathlib import Path

import pytest

from tests.clock import patience
from tests.driver import fabric
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
    """Two Sparks, addressed on both fabric twins."""
    Lab().up(2, engine=engine)
    sparks = Lab().sparks()
    fabric.address(*sparks)
    return sparks


def round_trip(spark: Handle) -> float:
    """Return the least round trip to the machine, in seconds."""
    shown = spark.run("ping -q -i 0.05 -c 10 10.213.0.1").stdout
    return float(shown.rpartition("= ")[2].split("/")[0]) / 1000


def test_spark_is_as_delivered(two):
    spark = two[0]
    assert spark.run("systemctl is-system-running").stdout == "running\n"
    assert spark.run("id -nG").stdout.split() == ["nvidia", "sudo"]
    assert spark.run("sudo -n id -un").stdout == "root\n"
    assert spark.run("docker ps", check=False).returncode, "the user must not be in docker's group"
    assert int(spark.run("sudo docker version -f '{{.Server.Version}}'").stdout.split(".")[0]) >= 25
    assert 'DGX_NAME="DGX Spark"' in spark.run("cat /etc/dgx-release").stdout
    shown = spark.run("nvidia-smi --query-gpu=name,memory.total --format=csv,noheader").stdout
    assert shown == "NVIDIA GB10, [N/A]\n"
    assert spark.run("which earlyoom", check=False).returncode
    assert "passwordauthentication no" in spark.run("sudo sshd -T").stdout


def test_delay_stays_over_a_reboot(two):
    spark = two[0]
    direct = round_trip(spark)
    spark.netem(delay=0.025)
    try:
        assert 0.05 <= round_trip(spark) < direct + 0.1
        spark.reboot()
        assert round_trip(spark) >= 0.05
    finally:
        spark.netem()
    # Not even one way is it delayed.
    assert round_trip(spark) < direct + 0.025


def test_loss(two):
    spark = two[0]
    spark.netem(loss=0.1)
    try:
        # 0.9 each way leaves 162 of 200; 125 and 195 are more than five standard deviations off.
        assert 125 < fabric.received(spark, "10.213.0.1", count=200) < 195
    finally:
        spark.netem()
    assert fabric.received(spark, "10.213.0.1") == 3


def test_reset_is_the_factory_state_and_as_quick_as_a_boot(two):
    spark = two[1]
    begun = time.monotonic()
    spark.reboot()
    boot = time.monotonic() - begun
    spark.run("sudo touch /etc/mark /var/lib/docker/mark")
    spark.plug({1: 0})
    spark.cable(False)
    spark.mtu(1500)
    begun = time.monotonic()
    spark.reset("driver-570")
    assert time.monotonic() - begun < 3 * boot
    assert spark.run("sudo ls /etc/mark /var/lib/docker/mark", check=False).stdout == ""
    version = "nvidia-smi --query-gpu=driver_version --format=csv,noheader"
    assert spark.run(version).stdout.startswith("570.")
    spark.reset()
    assert spark.run(version).stdout.startswith("580.")
    assert fabric.carriers(spark) == "1100"
    assert spark.record().cables == {0: state.Cable()}
    assert "192.168" not in spark.run("ip address").stdout


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
