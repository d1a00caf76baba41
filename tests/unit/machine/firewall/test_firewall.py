"""The firewall: its rules, what reads ufw, and the operation on fake hosts."""

import pytest

from sparkwright.machine.firewall.deploy import firewall
from sparkwright.machine.firewall.firewall import (
    FirewallState,
    UfwRule,
    differences,
    parse_firewall,
    port_rules,
)
from tests.unit.driven import fake_host
from tests.unit.sections import reworded

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
        status="Status: active",
        rules=(
            UfwRule("allow 22/tcp", None),
            UfwRule("limit OpenSSH", None),
            UfwRule("route allow in on eth0 out on eth1 to any port 80 proto tcp", None),
            UfwRule("allow 8000/tcp", "door"),
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
    assert state.status == "ERROR: problem running iptables"


DOOR, OTHER = port_rules(8000, "door", ()), port_rules(8000, "door", ("192.168.1.0/24",))


def state(*rules, **values):
    plain = {
        "installed": True,
        "active": True,
        "at_boot": True,
        "status": "",
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
        ((UfwRule("allow 8000/tcp", None),), DOOR, [], []),
        ((UfwRule("allow 8000/tcp", None),), OTHER, OTHER, []),
        # Another purpose is another's.
        ((UfwRule("allow 22/tcp", "ssh"), UfwRule("allow 4000/tcp", "gateway")), [], [], []),
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
        ("on", {"other": ["firewalld"]}, "two firewalls would conflict"),
        (
            "auto",
            {"ufw": ["ERROR: no iptables"]},
            "the state of ufw cannot be read: ERROR: no iptables",
        ),
    ],
)
def test_what_a_run_refuses(mode, sections, reason):
    host = spark(**sections)
    assert run(host, mode).did_error()
    assert reason in host.scripts()[-1]
    assert not any(script.startswith("ufw ") for script in host.scripts())


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
