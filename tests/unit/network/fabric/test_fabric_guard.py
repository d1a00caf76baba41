"""The fabric's firewall, loaded in a network namespace of its own."""

import os
import shlex
import shutil
from pathlib import Path

import pytest

from tests.makers.shell import shell

GUARD = Path(__file__).parents[4] / "files/host/network/fabric/fabric-guard"
ARGUMENTS = (
    "29500:29502 4711 29501,29506 none 192.168.100.0/24 192.168.101.0/24 "
    "enp1s0f0np0 192.168.100.12 02:00:00:00:00:0a "
    "enP2p1s0f0np0 192.168.101.12 02:00:00:00:00:0b"
)

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("iptables"), reason="needs root and iptables"
)


def chains(script):
    """Run a shell script where `$guard start` and `$guard stop` do; return the rules left."""
    setting = f'guard() {{ sh {GUARD} "$1" {ARGUMENTS}; }}\n'
    rules = f"{setting}{script}\niptables -S; ip6tables -S"
    done = shell(f"unshare --net sh -ec {shlex.quote(rules)}")
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_only_the_other_spark_reaches_the_fabric():
    rules = [rule.split(" ", 1)[1] for rule in chains("guard start") if " SPARKWRIGHT " in rule]
    assert rules == [
        "SPARKWRIGHT -i lo -j RETURN",
        "SPARKWRIGHT -s 192.168.100.12/32 -i enp1s0f0np0 "
        "-m mac --mac-source 02:00:00:00:00:0a -j ACCEPT",
        "SPARKWRIGHT -s 192.168.101.12/32 -i enP2p1s0f0np0 "
        "-m mac --mac-source 02:00:00:00:00:0b -j ACCEPT",
        "SPARKWRIGHT -d 192.168.100.0/24 -j DROP",
        "SPARKWRIGHT -d 192.168.101.0/24 -j DROP",
        "SPARKWRIGHT -p tcp -m tcp --dport 29500:29502 -j DROP",
        "SPARKWRIGHT -i lo -j RETURN",
        "SPARKWRIGHT -p tcp -m tcp --dport 29500:29502 -j DROP",
    ]


def test_it_starts_twice_and_stands_first():
    rules = chains("iptables -A INPUT -j ACCEPT; guard start; guard start")
    assert [rule for rule in rules if rule.startswith("-A INPUT")] == [
        "-A INPUT -j SPARKWRIGHT",
        "-A INPUT -j ACCEPT",
        "-A INPUT -j SPARKWRIGHT",
    ]


def test_it_leaves_nothing_behind():
    assert chains("guard start; guard stop; guard stop") == chains("true")


def test_rules_that_cannot_be_leave_the_old_ones():
    rules = chains(f"guard start; sh {GUARD} start x 1 2 none a b c d e 2>/dev/null || true")
    assert len([rule for rule in rules if rule.startswith("-A SPARKWRIGHT ")]) == 8


def test_who_takes_the_peers_address_has_not_its_card(tmp_path):
    """Two ends of a cable, and a stranger on it: who is answered?"""
    script = tmp_path / "cable.sh"
    arguments = ARGUMENTS.replace("02:00:00:00:00:0a", "02:00:00:00:00:02")
    script.write_text(f"""set -e
mount -t tmpfs none /run; mkdir /run/netns
for spark in a b stranger; do ip netns add $spark; done
ip link add switch type bridge; ip link set switch up
n=0; for spark in a b stranger; do
  n=$((n + 1))
  ip link add enp1s0f0np0 address 02:00:00:00:00:0$n netns $spark type veth peer name port$n
  ip link set port$n master switch; ip link set port$n up
  ip -n $spark link set lo up
done
ip -n a addr add 192.168.100.11/24 dev enp1s0f0np0
ip -n b addr add 192.168.100.12/24 dev enp1s0f0np0
for spark in a b; do ip -n $spark link set enp1s0f0np0 up; done
ip netns exec a sh {GUARD} start {arguments}
asks() {{ ip netns exec $1 timeout 20 ping -c 1 -W ${{2:-15}} 192.168.100.11 >/dev/null 2>&1; }}
asks b && echo peer
ip -n b link set enp1s0f0np0 down
ip -n stranger addr add 192.168.100.12/24 dev enp1s0f0np0
ip -n stranger link set enp1s0f0np0 up
asks stranger 1 && echo stranger
ip netns exec a sh {GUARD} stop {arguments}
ip -n a neigh flush all
asks stranger && echo unguarded
""")
    done = shell(f"unshare --net --mount sh {script}", check=False)
    assert (done.stdout.split(), done.stderr) == (["peer", "unguarded"], "")
