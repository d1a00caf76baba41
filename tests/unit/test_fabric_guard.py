"""The fabric's firewall, loaded in a network namespace of its own."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

GUARD = Path(__file__).parents[2] / "files/fabric/fabric-guard"
ARGUMENTS = (
    "29500:29502 enp1s0f0np0 192.168.100.0/24 192.168.100.12 "
    "enP2p1s0f0np0 192.168.101.0/24 192.168.101.12"
)

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("iptables"), reason="needs root and iptables"
)


def chains(script):
    """Run a shell script where `$guard start` and `$guard stop` do; return the rules left."""
    setting = f'guard() {{ sh {GUARD} "$1" {ARGUMENTS}; }}\n'
    done = subprocess.run(
        ["unshare", "--net", "sh", "-ec", f"{setting}{script}\niptables -S; ip6tables -S"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_only_the_other_spark_reaches_the_fabric():
    rules = [rule.split(" ", 1)[1] for rule in chains("guard start") if " SPARKWRIGHT " in rule]
    assert rules == [
        "SPARKWRIGHT -i lo -j RETURN",
        "SPARKWRIGHT -s 192.168.100.12/32 -i enp1s0f0np0 -j ACCEPT",
        "SPARKWRIGHT -s 192.168.101.12/32 -i enP2p1s0f0np0 -j ACCEPT",
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
