"""The firewall: its rules, and the operation on fake hosts."""

import json
import os
from subprocess import CompletedProcess

import pytest

from host.state import firewall as part
from sparkwright.machine.firewall.deploy import firewall
from sparkwright.machine.firewall.firewall import FirewallState, UfwRule, differences, port_rules
from tests.unit.driven import fake_host

FOUND = {
    "installed": True,
    "active": True,
    "at_boot": True,
    "status": "Status: active",
    "rules": [
        {"text": "limit OpenSSH", "purpose": None},
        {"text": "allow 8000/tcp", "purpose": "door"},
    ],
    "ssh": [22, 2222],
    "turned_on": False,
    "other": None,
    "published": ["web (8080)"],
}


DOOR, OTHER = port_rules(8000, "door", ()), port_rules(8000, "door", ("192.168.1.0/24",))


@pytest.mark.parametrize(
    ("found", "wanted", "add", "delete"),
    [
        ((), DOOR, DOOR, []),
        (DOOR, DOOR, [], []),
        (DOOR, OTHER, OTHER, DOOR),
        # The owner's own rule is enough; it never becomes ours, and never goes.
        ((UfwRule("allow 8000/tcp", None),), DOOR, [], []),
        ((UfwRule("allow 8000/tcp", None),), OTHER, OTHER, []),
        # Another purpose is another's.
        ((UfwRule("allow 22/tcp", "ssh"), UfwRule("allow 4000/tcp", "gateway")), [], [], []),
    ],
)
def test_differences(found, wanted, add, delete):
    assert differences(found, wanted, ("door", "fabric")) == (add, delete)


def run(mode, **found):
    """Run it on a host whose firewall is that of FOUND, but for some of it; return the commands."""
    host = fake_host(state={"firewall": FOUND | found}, root="/r", firewall=mode)
    done = host.run(firewall, purposes=("door", "fabric"), rules=DOOR)
    return done.did_error(), host.scripts()


@pytest.mark.parametrize(
    ("mode", "found", "reason"),
    [
        ("on", {"other": "firewalld"}, "two firewalls would conflict"),
        (
            "auto",
            {"active": None, "status": "ERROR: no iptables"},
            "the state of ufw cannot be read: ERROR: no iptables",
        ),
    ],
)
def test_what_a_run_refuses(mode, found, reason):
    failed, scripts = run(mode, **found)
    assert failed
    assert reason in scripts[-1]
    assert not any(script.startswith("ufw ") for script in scripts)


def test_ssh_comes_before_everything_else():
    _, changes = run("on", active=False, at_boot=False, rules=[])
    assert [change.split(" comment ")[0] for change in changes[:3]] == [
        "ufw allow 22/tcp",
        "ufw allow 2222/tcp",
        "ufw allow 8000/tcp",
    ]
    assert changes[3].index("systemd-run") < changes[3].index("ufw --force enable")
    assert "ENABLED=no" in changes[3]
    assert "ENABLED=yes" in changes[4]


def test_what_a_run_has_turned_on_keeps_ssh_open_whatever_the_mode_is():
    assert run("auto")[1] == []
    _, changes = run("auto", turned_on=True, ssh=[22])
    assert changes == ["ufw allow 22/tcp comment 'sparkwright ssh'"]


def test_what_a_spark_says_of_ssh_and_of_published_ports(monkeypatch):
    """A session by a forwarded port, a socket unit, and containers that others reach."""
    ufw = [
        "Added user rules (see 'ufw status' for running firewall):",
        "ufw limit OpenSSH comment 'mine'",
        "ufw route allow in on eth0 out on eth1 to any port 80 proto tcp",
        "ufw allow 8000/tcp comment 'sparkwright door'",
    ]
    said = {"sshd": ["port 22", "addressfamily any"], "ufw": ufw}
    systemctl = "ActiveState=inactive\n\nListen=[::]:2222 (Stream)\n\nActiveState=active"
    web = {"PrivatePort": 80, "PublicPort": 8080, "Type": "tcp"}
    containers = [
        {"Names": ["/web"], "Ports": [web | {"IP": "0.0.0.0"}, web | {"IP": "::"}]},
        {"Names": ["/db"], "Ports": [web | {"IP": "127.0.0.1"}, {"PrivatePort": 9, "Type": "tcp"}]},
        {"Names": ["/quiet"], "Ports": []},
    ]
    sockets = [
        {"kind": "tcp", "address": "0.0.0.0", "port": port, "processes": [{"command": command}]}
        for port, command in ((22, "sshd"), (2022, "sshd"), (80, "nginx"))
    ]
    shell = "HOME=/root\0SSH_CONNECTION=10.0.0.1 50000 10.0.0.2 2200\0LANG=C"
    files = {
        "/etc/ufw/user.rules": "### tuple ###",
        f"/proc/{os.getpid()}/status": "Name:\tsudo\nPPid:\t77\n",
        "/proc/77/environ": shell,
        "/r/state/firewall": "on\n",
    }
    done = {"systemctl": CompletedProcess((), 0, systemctl, "")}
    nothing = CompletedProcess((), 127, "", "")
    monkeypatch.setattr(part, "run", lambda *words: done.get(words[0], nothing))
    monkeypatch.setattr(part, "lines", lambda *words: said[words[0]])
    monkeypatch.setattr(part, "text", files.get)
    monkeypatch.setattr(part, "listening", lambda: sockets)
    monkeypatch.setattr(part.docker, "get", lambda path: containers)
    found = FirewallState.model_validate_json(json.dumps(part.read("/r")))
    assert found == FirewallState(
        installed=False,
        active=False,
        at_boot=False,
        status="",
        rules=(
            UfwRule("limit OpenSSH", None),
            UfwRule("route allow in on eth0 out on eth1 to any port 80 proto tcp", None),
            UfwRule("allow 8000/tcp", "door"),
        ),
        ssh=(22, 2022, 2200, 2222),
        turned_on=True,
        other="firewalld",
        published=("web (8080)",),
    )
