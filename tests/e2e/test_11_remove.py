"""From the factory to a served model and back: two Sparks are afterwards what they were before.

The tests build on one another, in order.
"""

import shlex

import pytest

from tests.e2e.conftest import DEPLOY, pyinfra
from tests.lab.spark import Handle

REMOVE = "deploys/remove.py"

# What a Spark is. Left out: what changes by itself, and what the lab's Sparks share of one kernel.
LISTING = {
    "files": "cd / && find etc usr opt home root boot srv -type f -printf '%m %u %g ' "
    "-exec sha256sum {} ';' -o -printf '%y %m %u %g %l %p\\n' | grep -Ev '"
    "^[^/]* etc/(passwd|group|shadow|gshadow|subuid|subgid)-$|__pycache__|etc/ld.so.cache$|"
    "etc/[.]pwd.lock$|home/[^/]*/[.]' | sort",
    "state": "ls -A /var/lib /var/lib/private /var/spool; true",
    "accounts": "getent passwd; getent group",
    "packages": "dpkg --get-selections; apt-mark showmanual",
    "units": "systemctl list-unit-files --no-legend; systemctl --failed --no-legend; "
    "systemctl list-units --type=service,socket,timer --state=active --plain --no-legend "
    "| awk '{print $1}' | grep -Ev '^(session|user|run-|apt-|dpkg-|man-db|systemd-)'",
    "kernel": "sysctl -a 2>/dev/null | grep -E '^(net[.]ipv4[.]conf|net[.]ipv[46][.]ip_forward|"
    "net[.]core|vm[.]overcommit)'",
    "network": "ip -o -4 address | awk '{print $2, $4}'; ip -4 route; ip -o link "
    "| awk '{print $2, $4, $5}'",
    "rules": "iptables-save | grep -E '^[-:*]' | sed 's/ \\[.*//'; ip6tables-save "
    "| grep -E '^[-:*]' | sed 's/ \\[.*//'; LC_ALL=C ufw status; ufw show added",
    "docker": "docker image ls; docker ps --all --quiet; docker info --format "
    "'{{json .Runtimes}} {{.LoggingDriver}}'",
}


def listing(spark: Handle) -> dict[str, set[str]]:
    """Return what a Spark is, as lines of each kind."""
    return {
        what: set(spark.run(f"sudo sh -c {shlex.quote(command)}").stdout.splitlines())
        for what, command in LISTING.items()
    }


def changes(before: dict[str, set[str]], after: dict[str, set[str]]) -> dict[str, list[str]]:
    """Return the lines that came or went, of each kind that changed."""
    return {
        what: sorted(
            [f"+ {line}" for line in after[what] - before[what]]
            + [f"- {line}" for line in before[what] - after[what]]
        )
        for what in before
        if before[what] != after[what]
    }


@pytest.fixture(scope="module")
def fresh(pair) -> list[dict[str, set[str]]]:
    """Two Sparks as delivered, but for a file of their owner's; ufw is on."""
    for spark in pair.both:
        spark.reset()
        spark.run(
            "sudo ufw allow 22/tcp && sudo ufw --force enable && "
            "sudo mkdir -p /opt/qwen36/mine && echo notes | sudo tee /opt/qwen36/mine/notes"
        )
    return [listing(spark) for spark in pair.both]


@pytest.fixture(scope="module")
def served(pair, fresh) -> None:
    """The deploy has made a served model of them."""
    pyinfra(DEPLOY).succeeded()
    assert pair.ask()
    assert "8000/tcp" in pair.head.run("sudo ufw show added").stdout


def test_a_dry_run_shows_what_goes_and_what_stays(pair, served):
    run = pyinfra(REMOVE, "--dry").succeeded()
    assert run.plan
    assert "goes: units: " in run.output
    assert "stays: weights: /opt/qwen36/tiny" in run.output
    assert "stays: /opt/qwen36/mine" in run.output
    assert pair.ask()


def test_a_slip_removes_no_weights(served):
    run = pyinfra(REMOVE, "--data", "weights=all")
    assert run.status == 1
    assert "--data weights: found 'all'; expected remove" in run.output
    assert run.changed == frozenset()


def test_weights_stay_and_the_rest_goes(pair, fresh, served):
    planned = pyinfra(REMOVE, "--dry").plan
    assert pyinfra(REMOVE).succeeded().changed == planned
    for spark, before in zip(pair.both, fresh, strict=True):
        left = changes(before, listing(spark))
        weights = left.pop("files")
        assert left == {}
        assert all(" opt/qwen36/" in line for line in weights), weights
        assert any(line.endswith(".safetensors") for line in weights)


def test_a_second_run_changes_nothing(served):
    assert pyinfra(REMOVE).succeeded().changed == frozenset()


def test_weights_go_when_asked(pair, fresh, served):
    pyinfra(REMOVE, "--data", "weights=remove").succeeded()
    for spark, before in zip(pair.both, fresh, strict=True):
        assert changes(before, listing(spark)) == {}
