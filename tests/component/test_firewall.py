"""The firewall with the real ufw, in namespaces of its own."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.programs import ended, script

PROJECT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("ufw"), reason="needs root and ufw"
)

# Stand-ins for what this machine may lack, or must not be asked: an sshd, systemd.
STANDINS = {
    "sshd": "echo port 22",
    "systemctl": "case $1 in show) echo UnitFileState=enabled ;; is-active) exit 3 ;; esac",
    "ss": "true",
    "docker": "true",
}
INSIDE = """
cp -a /etc/ufw "$1/ufw"
sed -i "s/^ENABLED=.*/ENABLED=no/" "$1/ufw/ufw.conf"
mount --bind "$1/ufw" /etc/ufw
mount -t tmpfs none /run
ufw --force reset >/dev/null
exec "$2" -c "$3"
"""


@pytest.fixture
def inside(tmp_path):
    """Run Python code where ufw has a network and settings of its own; return what it prints."""
    for name, text in STANDINS.items():
        script((tmp_path / name), f"#!/bin/sh\n{text}\n")

    def run_code(code):
        private = ["unshare", "--net", "--mount", "--propagation", "private"]
        words = ["sh", "-ec", INSIDE, "inside", str(tmp_path), sys.executable, PRELUDE + code]
        own = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        done = ended([*private, *words], cwd=PROJECT, env=own)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run_code


# `show` prints what ufw has now; `go` runs the operation.
PRELUDE = """
import json, subprocess
from sparkwright.machine.firewall.deploy import firewall
from sparkwright.machine.firewall.firewall import fabric_rules, port_rules
from tests.unit.driven import this_machine
from tests.makers.fabric import PLAN

DOOR = port_rules(8000, "door", ())
root = "/run/r"

def sh(command):
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout

def go(rules):
    spark = this_machine(root=root, firewall="auto")
    return spark.run(firewall, purposes=("door", "fabric"), rules=rules)
"""


def test_rules_are_what_ufw_makes_of_them(inside):
    """A rule that ufw tells in other words would be added again by each run."""
    found = inside(
        """
sh("ufw allow 22/tcp; ufw --force enable; ufw allow 8443/tcp comment mine")
rules = [
    *port_rules(8000, "door", ("192.168.1.0/24", "10.0.0.7", "fd00::/8")),
    *fabric_rules(PLAN),
]
first = go(rules).did_change()
second = go(rules).did_change()
went = go(DOOR).did_change()
print(json.dumps([first, second, went, sh("ufw show added").splitlines()[1:]]))
"""
    )
    assert found == [
        True,
        False,
        True,
        [
            "ufw allow 22/tcp",
            "ufw allow 8443/tcp comment 'mine'",
            "ufw allow 8000/tcp comment 'sparkwright door'",
        ],
    ]


def test_its_state_is_what_ufw_says(inside):
    """Off, off with a rule, on; then lost but on at boot, and lost for IPv6 alone."""
    found = inside(
        """
from sparkwright.machine.firewall.firewall import FirewallState
from sparkwright.run.state import read_now

def look():
    with this_machine(root=root).current() as spark:
        state = read_now(spark, FirewallState.ask(root=root))
    said = sh("ufw status 2>&1").splitlines()[0]
    return [state.status == said, state.active, state.at_boot, [x.text for x in state.rules]]

lose = "{0} --flush; {0} --delete-chain"
steps = [
    "true",
    "ufw allow 8443/tcp",
    "ufw --force enable",
    lose.format("iptables"),
    "ufw reload; " + lose.format("ip6tables"),
]
print(json.dumps([[sh(step), look()][1] for step in steps]))
"""
    )
    rule = ["allow 8443/tcp"]
    assert found == [
        [True, False, False, []],
        [True, False, False, rule],
        [True, True, True, rule],
        [True, False, True, rule],
        [True, None, True, rule],
    ]
