"""The firewall: rules and parser alone, and with the real ufw in namespaces of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploys.operations.firewall import firewall
from deploys.plan.errors import PlanError
from deploys.plan.firewall import (
    FirewallState,
    Rule,
    checked_mode,
    differences,
    networks,
    parse_firewall,
    port_rules,
)
from tests.unit.driven import fake_host
from tests.unit.sections import reworded

PROJECT = Path(__file__).parents[2]

# What the script prints on Ubuntu 24.04 with ufw on, Docker, and a session by a forwarded port.
OUTPUT = r"""@@ufw
Status: active
@@boot
enabled
@@rules
Added user rules (see 'ufw status' for running firewall):
ufw allow 22/tcp
ufw limit OpenSSH comment 'mine'
ufw route allow in on eth0 out on eth1 to any port 80 proto tcp
ufw allow 8000/tcp comment 'sparkwright door'
@@ssh
2222
22
22
@@turned-on
@@other
@@published
web	0.0.0.0:8080->80/tcp, [::]:8080->80/tcp
db	127.0.0.1:5432->5432/tcp, 9000/tcp
quiet
""".splitlines()


def test_the_parser_reads_what_a_spark_says():
    assert parse_firewall(OUTPUT) == FirewallState(
        installed=True,
        active=True,
        at_boot=True,
        said="Status: active",
        rules=(
            Rule("allow 22/tcp", None),
            Rule("limit OpenSSH", None),
            Rule("route allow in on eth0 out on eth1 to any port 80 proto tcp", None),
            Rule("allow 8000/tcp", "door"),
        ),
        ssh=(22, 2222),
        turned_on=False,
        other=None,
        published=("web (8080)",),
    )


def test_a_spark_without_ufw():
    names = ("ufw", "boot", "rules", "ssh", "turned-on", "other", "published")
    state = parse_firewall([f"@@{name}" for name in names])
    assert not state.installed
    assert not state.used
    assert state.active is False


def test_a_ufw_that_does_not_answer_is_not_taken_for_one_that_is_off():
    state = parse_firewall(
        ["ERROR: problem running iptables" if "active" in x else x for x in OUTPUT]
    )
    assert state.active is None
    assert state.said == "ERROR: problem running iptables"


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ((), ()),
        (["192.168.1.0/24", "10.0.0.7/32"], ("192.168.1.0/24", "10.0.0.7")),
        (("fd00::/8",), ("fd00::/8",)),
    ],
)
def test_networks(found, expected):
    assert networks(found) == expected


@pytest.mark.parametrize(
    ("found", "problem"),
    [
        ("192.168.1.0/24", "found '192.168.1.0/24'; expected a list"),
        (["192.168.1.5/24"], "host bits set"),
        (["lan"], "firewall_from: found 'lan'"),
    ],
)
def test_what_is_no_list_of_networks(found, problem):
    with pytest.raises(PlanError, match="group_data: firewall_from") as raised:
        networks(found)
    assert problem in str(raised.value)


def test_a_mode_that_there_is_not():
    with pytest.raises(PlanError, match="group_data: firewall: found True; expected auto or on"):
        checked_mode(True)


DOOR, OTHER = port_rules(8000, "door", ()), port_rules(8000, "door", ("192.168.1.0/24",))


def state(*rules, **values):
    plain = {
        "installed": True,
        "active": True,
        "at_boot": True,
        "said": "",
        "ssh": (22,),
        "turned_on": False,
        "other": None,
        "published": (),
    }
    return FirewallState(rules=rules, **(plain | values))


@pytest.mark.parametrize(
    ("found", "wanted", "add", "delete"),
    [
        ((), DOOR, DOOR, []),
        (DOOR, DOOR, [], []),
        (DOOR, OTHER, OTHER, DOOR),
        # The owner's own rule is enough; it never becomes ours, and never goes.
        ((Rule("allow 8000/tcp", None),), DOOR, [], []),
        ((Rule("allow 8000/tcp", None),), OTHER, OTHER, []),
        # Another purpose is another's.
        ((Rule("allow 22/tcp", "ssh"), Rule("allow 4000/tcp", "gateway")), [], [], []),
    ],
)
def test_differences(found, wanted, add, delete):
    assert differences(state(*found), wanted, ("door", "fabric")) == (add, delete)


def spark(**sections):
    """A fake host whose firewall is that of OUTPUT, with some sections in other words."""
    return fake_host({"ufw status": "\n".join(reworded(OUTPUT, **sections))}, root="/r")


def run(host, mode="auto", rules=DOOR):
    return host.run(firewall, root="/r", mode=mode, purposes=("door", "fabric"), rules=rules)


@pytest.mark.parametrize(
    ("mode", "sections", "reason"),
    [
        ("on", {"other": ["firewalld"]}, "two firewalls would fight"),
        ("auto", {"ufw": ["ERROR: no iptables"]}, "whether it is on: ERROR: no iptables"),
    ],
)
def test_what_a_run_refuses(mode, sections, reason):
    host = spark(**sections)
    assert run(host, mode).did_error()
    assert reason in host.scripts()[-1]
    assert not any(script.startswith("ufw ") for script in host.scripts())


@pytest.mark.parametrize("ufw", [[], ["Status: inactive"]])
def test_a_ufw_that_is_off_is_left_so(ufw):
    host = spark(ufw=ufw, boot=[])
    assert not run(host).did_change()
    assert len(host.commands) == 1


def test_ssh_comes_before_everything_else():
    host = spark(ufw=["Status: inactive"], boot=[], rules=[])
    run(host, "on")
    changes = host.scripts()[1:]
    assert [change.split(" comment ")[0] for change in changes[:3]] == [
        "ufw allow 22/tcp",
        "ufw allow 2222/tcp",
        "ufw allow 8000/tcp",
    ]
    assert changes[3].index("systemd-run") < changes[3].index("ufw --force enable")
    assert "ENABLED=no" in changes[3]
    assert "ENABLED=yes" in changes[4]


needs_ufw = pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("ufw"), reason="needs root and ufw"
)

# Stand-ins for what this machine may lack, or must not be asked: an sshd, systemd.
STANDINS = {
    "sshd": "echo port 22",
    "systemctl": 'case $* in "is-enabled ufw.service") echo enabled ;; is-active*) exit 3 ;; esac',
    "systemd-run": 'echo "$@" >> "$LOG"',
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
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)

    def run_code(code):
        private = ["unshare", "--net", "--mount", "--propagation", "private"]
        words = ["sh", "-ec", INSIDE, "inside", str(tmp_path), sys.executable, PRELUDE + code]
        done = subprocess.run(
            [*private, *words],
            cwd=PROJECT,
            env=os.environ
            | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "LOG": str(tmp_path / "log")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run_code


# `show` prints what ufw has now; `go` runs the operation.
PRELUDE = """
import json, subprocess, sys
from pathlib import Path
from deploys.plan.firewall import Rule, fabric_rules, networks, port_rules
from tests.unit.driven import this_machine
from tests.unit.test_firewall import DOOR, OTHER, firewall
from tests.unit.test_fabric import PLAN

root = "/run/r"

def sh(command):
    return subprocess.run(command, shell=True, capture_output=True, text=True).stdout

def go(rules, mode="auto"):
    return this_machine(root=root).run(
        firewall, root=root, mode=mode, purposes=("door", "fabric"), rules=rules
    )

def added():
    return [line for line in sh("ufw show added").splitlines()[1:]]
"""


@needs_ufw
def test_rules_are_what_ufw_makes_of_them(inside):
    """A rule that ufw tells in other words would be added again by each run."""
    found = inside(
        """
sh("ufw allow 22/tcp; ufw --force enable; ufw allow 8443/tcp comment mine")
rules = [
    *port_rules(8000, "door", networks(["192.168.1.0/24", "10.0.0.7/32", "fd00::/8"])),
    *fabric_rules(PLAN),
]
first = go(rules).did_change()
second = go(rules).did_change()
went = go(DOOR).did_change()
print(json.dumps([first, second, went, added()]))
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


@needs_ufw
def test_it_is_turned_on_for_good_after_a_new_connection(inside):
    found = inside(
        """
first = go(DOOR, "on").did_change()
second = go(DOOR, "on").did_change()
conf = sh("grep ENABLED /etc/ufw/ufw.conf").strip()
status = sh("ufw status").splitlines()[0]
# Once turned on by a run, SSH stays open whatever the mode is later.
later = go([], "auto").did_change()
print(json.dumps([first, second, conf, status, Path(root, "state/firewall").read_text(), added()]))
"""
    )
    assert found == [
        True,
        False,
        "ENABLED=yes",
        "Status: active",
        "on\n",
        ["ufw allow 22/tcp comment 'sparkwright ssh'"],
    ]


@needs_ufw
def test_it_goes_off_again_without_a_new_connection(inside, tmp_path):
    found = inside(
        """
from pyinfra.api.exceptions import ConnectError
from pyinfra.connectors.local import LocalConnector

def connect(self):
    # The first connection is that of the run.
    LocalConnector.connect = refuse

def refuse(self):
    raise ConnectError("Could not connect (timed out)")

LocalConnector.connect = connect
result = go(DOOR, "on")
LocalConnector.connect = lambda self: None
status, conf = sh("ufw status").strip(), sh("grep ENABLED /etc/ufw/ufw.conf").strip()
again = go(DOOR, "on").did_change()
print(json.dumps([result.did_error(), status, conf, again, sh("ufw status").splitlines()[0]]))
"""
    )
    assert found == [True, "Status: inactive", "ENABLED=no", True, "Status: active"]
    assert "--on-active=60" in (tmp_path / "log").read_text()
