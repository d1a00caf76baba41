"""The lab itself: two Sparks, their wires and switches, and that nothing stays when it is gone.

It runs before all that uses the lab of the session, since it removes its own.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import state
from tests.lab.lab import Lab
from tests.lab.spark import Handle
from tests.lab.state import LabError

pytestmark = pytest.mark.lab

FABRIC = """
network:
  version: 2
  ethernets:
    enp1s0f0np0: {{addresses: [192.168.100.{number}/24], mtu: 9000}}
    enP2p1s0f0np0: {{addresses: [192.168.101.{number}/24], mtu: 9000}}
"""


def snapshot() -> dict[str, str]:
    """Return all that `down` promises to leave as it was."""
    commands = {
        "interfaces": "ip -brief address | sort",
        "routes": "ip route",
        "rules": "iptables-save | grep '^-A' || true",
        "mounts": "sort /proc/self/mounts",
        "loops": "losetup --all",
        "groups": "find /sys/fs/cgroup -path '*sparkwright*'",
        "processes": "ps -eo stat=,args= | grep -E '10[.]213[.]0[.]1|tests[.]lab[.]|"
        "docker-registry serv[e]|sparkwright-la[b]' | grep -v ^Z || true",
        "kernel": "sysctl net.ipv4.ip_forward vm.swappiness",
        "folders": "ls -d /run/sparkwright-lab /var/lib/sparkwright-lab inventory/lab.yaml || true",
    }
    return {
        what: subprocess.run(
            ["sh", "-c", command],
            cwd=state.PROJECT,
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ).stdout
        for what, command in commands.items()
    }


@pytest.fixture(scope="module")
def before(machine: None) -> dict[str, str]:
    """The machine without a lab."""
    Lab().down()
    return snapshot()


@pytest.fixture(scope="module")
def pair(before: dict[str, str]) -> Iterator[tuple[Handle, Handle]]:
    """Two Sparks, addressed on both fabric twins."""
    lab = Lab()
    lab.up(2)
    sparks = lab.spark("spark1"), lab.spark("spark2")
    for number, spark in enumerate(sparks, start=10):
        file = "/etc/netplan/40-cx7.yaml"
        command = f"sudo install -m 600 /dev/stdin {file} && sudo netplan apply"
        spark.run(command, stdin=FABRIC.format(number=number))
    yield sparks
    lab.down()


def received(spark: Handle, address: str, options: str = "", count: int = 3) -> int:
    """Return how many of `count` pings came back."""
    done = spark.run(f"ping -q -i 0.02 -W 1 -c {count} {options} {address}", check=False)
    return int(done.stdout.split(" received")[0].split()[-1])


def round_trip(spark: Handle) -> float:
    """Return the least round trip to the machine, in seconds."""
    shown = spark.run("ping -q -i 0.05 -c 10 10.213.0.1").stdout
    return float(shown.rpartition("= ")[2].split("/")[0]) / 1000


def test_spark_is_as_delivered(pair):
    spark = pair[0]
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


def test_sparks_differ(pair):
    for command in ("hostname", "cat /etc/machine-id", "cat /etc/ssh/ssh_host_ed25519_key.pub"):
        assert pair[0].run(command).stdout != pair[1].run(command).stdout


def test_jumbo_frames_cross_both_twins(pair):
    for address in ("192.168.100.11", "192.168.101.11"):
        state.wait_for(lambda to=address: received(pair[0], to, count=1) == 1, 10, "the fabric")
        assert received(pair[0], address, "-M do -s 8972") == 3


def test_cut_cable(pair):
    near, far = pair
    far.cable(False)
    assert received(near, "192.168.100.11") == received(near, "192.168.101.11") == 0
    far.cable(True)
    state.wait_for(lambda: received(near, "192.168.100.11", count=1) == 1, 10, "the cable")


def test_delay_stays_over_a_reboot(pair):
    spark = pair[0]
    direct = round_trip(spark)
    spark.netem(delay=0.025)
    try:
        assert 0.05 <= round_trip(spark) < 0.06
        reboot(spark)
        assert round_trip(spark) >= 0.05
    finally:
        spark.netem()
    assert round_trip(spark) < direct + 0.01


def test_loss(pair):
    spark = pair[0]
    spark.netem(loss=0.1)
    try:
        # 0.9 each way leaves 162 of 200; 125 and 195 are more than five standard deviations off.
        assert 125 < received(spark, "10.213.0.1", count=200) < 195
    finally:
        spark.netem()
    assert received(spark, "10.213.0.1") == 3


def reboot(spark: Handle) -> None:
    """Reboot a Spark from inside and wait until it is there again."""
    boot = spark.boot_id()
    spark.run("sudo systemctl reboot", check=False)

    def rebooted() -> bool:
        try:
            return spark.boot_id() != boot
        except subprocess.CalledProcessError:
            return False

    state.wait_for(rebooted, 60, f"{spark.name} to reboot")
    spark.wait_ready()


def test_reboot_keeps_files_and_forgets_addresses(pair):
    spark = pair[0]
    spark.run("sudo ip address add 192.0.2.7/32 dev enp1s0f0np0; echo kept > kept; sudo sync")
    reboot(spark)
    assert spark.run("cat kept").stdout == "kept\n"
    assert "192.0.2.7" not in spark.run("ip address").stdout
    assert "192.168.100.10" in spark.run("ip address").stdout


def test_poweroff_inside_switches_off(pair):
    spark = pair[1]
    spark.run("sudo systemctl poweroff", check=False)
    state.wait_for(lambda: not spark.running(), 30, f"{spark.name} to switch off")
    spark.power_on()
    spark.wait_ready()


def test_power_cut(pair):
    spark = pair[1]
    spark.power_off()
    assert not spark.running()
    with pytest.raises(LabError, match="is off"):
        spark.wait_ready()
    spark.power_on()
    spark.wait_ready()
    assert spark.run("systemctl is-system-running").stdout == "running\n"


def test_reset_is_the_factory_state_in_seconds(pair):
    spark = pair[1]
    spark.run("sudo touch /etc/mark /var/lib/docker/mark")
    begun = time.monotonic()
    spark.reset("driver-570")
    assert time.monotonic() - begun < 20
    assert spark.run("sudo ls /etc/mark /var/lib/docker/mark", check=False).stdout == ""
    version = "nvidia-smi --query-gpu=driver_version --format=csv,noheader"
    assert spark.run(version).stdout.startswith("570.")
    spark.reset()
    assert spark.run(version).stdout.startswith("580.")


def test_up_after_a_crash_cleans_first_and_is_quick(pair):
    lab = state.require()
    for process in (*lab.services.values(), lab.sparks["spark1"].supervisor):
        os.killpg(process.pid, signal.SIGKILL)
        state.wait_for(lambda gone=process: not gone.alive(), 5, "the crash")
    begun = time.monotonic()
    Lab().up(1)
    assert time.monotonic() - begun < 30
    assert list(state.require().sparks) == ["spark1"]
    Lab().spark("spark1").run("true")


def test_a_second_up_says_so(pair):
    lab = state.require()
    Lab().up(1)
    assert state.require() == lab
    with pytest.raises(LabError, match="first remove it"):
        Lab().up(2)


def test_down_leaves_nothing(pair, before):
    Lab().spark("spark1").run("sudo sysctl -w vm.swappiness=11; sudo docker ps")
    Lab().down()
    assert snapshot() == before
    assert not Path("/run/sparkwright-lab").exists()
    Lab().down()
