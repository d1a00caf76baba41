"""What of a Spark counts as ours, what of it goes, and what stays."""

import re
from pathlib import Path

import pytest

from sparkwright.cleanup.footprint_survey import parse_footprint
from sparkwright.cleanup.remove import report
from sparkwright.common.placed import folder_names, unit_names
from sparkwright.release.guard import ALONE, PAIR
from tests.unit.sections import reworded

PROJECT = Path(__file__).parents[3]
OPTIONS = {"max-size": "50m", "max-file": "3"}
EARLYOOM = 'EARLYOOM_ARGS="-m 2,1"\n'


# What the script prints on a Spark that serves, beside things of its owner.
OUTPUT = r"""@@unit-files
ours image@.service
ours vllm@.service
ours switch@.service
foreign benchmark.service
foreign vllm@.service.d
@@units
vllm@chat-1.service
switch@chat-1.service
ssh.service
getty@tty1.service
vllm@chat-1.service
@@containers
0123456789ab
@@networks
@@proof
/r/manifests
/r/releases
@@entries
4096 no no bin
3000000000 no no cache
4096 no no manifests
22000000000 yes yes qwen36
900 no no my notes
4096 no no state
@@settings
/etc/systemd/journald.conf.d/sparkwright.conf
/etc/sysctl.d/90-sparkwright.conf
@@earlyoom
EARLYOOM_ARGS="-m 2,1"
@@sysctl
vm.swappiness = 60
vm.swappiness = 10
@@daemon-json
{"log-opts": {"max-size": "50m", "max-file": "3"}, "runtimes": {"nvidia": {}}}
@@previous
known
{"runtimes": {"nvidia": {}}}
@@proxies
@@netplan
network:
  version: 2
  ethernets:
    enp1s0f0np0:
      mtu: 9000
    enP2p1s0f0np0:
      mtu: 9000
@@orders
{"image": "example.org/vllm@sha256:11", "size": 1}
{"image": "sparkwright/mine:aa", "base": "example.org/vllm@sha256:11"}
{"image": "x", "images": ["sparkwright/mine:aa", "sha256:44"]}
{"images": ["example.org/copied@sha256:33", "sha256:33"], "source": "http://192.168.100.11:29502"}
@@released
sha256:55
sha256:44
@@images
"sha256:11" 22000000000 null ["example.org/vllm@sha256:11"]
"sha256:22" 23000000000 ["sparkwright/mine:aa"] []
"sha256:33" 9000000 null null
"sha256:44" 100 ["postgres:16"] []
"sha256:55" 7000000 [] []
@@made-of
sha256:22 true /vllm-chat-1 ours
sha256:11 false /owner other
sha256:44 true /db other
@@recorded
earlyoom
libfoo:arm64
haproxy
@@accounts
prometheus
@@packages
haproxy
libfoo their-tool
bash
@@ufw
Status: active
@@boot
enabled
@@rules
Added user rules (see 'ufw status' for running firewall):
ufw allow 22/tcp comment 'sparkwright ssh'
ufw allow 8000/tcp comment 'sparkwright door'
ufw allow 9000/tcp
@@ssh
@@turned-on
@@other
@@published
""".splitlines()


def told(lines, weights=False):
    found = parse_footprint(lines)
    return report(found, "/r", weights=weights, earlyoom=EARLYOOM, log_options=OPTIONS)


def test_what_goes_and_what_stays():
    assert told(OUTPUT) == [
        "goes: units: switch@chat-1.service, vllm@chat-1.service",
        "goes: unit files: /etc/systemd/system/image@.service, "
        "/etc/systemd/system/vllm@.service, /etc/systemd/system/switch@.service",
        "goes: rules of ufw: allow 8000/tcp",
        "goes: network: /etc/netplan/60-sparkwright-fabric.yaml (enp1s0f0np0, enP2p1s0f0np0)",
        "goes: settings: /etc/systemd/journald.conf.d/sparkwright.conf, "
        "/etc/sysctl.d/90-sparkwright.conf",
        "goes: settings of Docker: our keys of /etc/docker/daemon.json "
        "(at its next start: containers run)",
        "goes: images: sparkwright/mine:aa (23.0 GB), sha256:33 (9.0 MB), sha256:55 (7.0 MB)",
        "goes: packages: haproxy",
        "goes: folders: /r/bin (4 kB), /r/cache (3.0 GB), /r/state (4 kB), /r/manifests (4 kB)",
        "stays: /etc/systemd/system/benchmark.service, which is not ours",
        "stays: /etc/systemd/system/vllm@.service.d, which is not ours",
        "stays: /r/my notes (1 kB), which is not ours",
        "stays: /r/qwen36/.sparkwright-set-aside: files of others",
        "stays: image example.org/vllm@sha256:11: owner was made of it",
        "stays: package libfoo: their-tool needs it",
        "stays: accounts that came with our packages: prometheus",
        "stays: /etc/default/earlyoom: earlyoom was here before us, and what it said then "
        "is not known",
        "stays: weights: /r/qwen36 (22.0 GB); sparkwright remove --data weights=remove "
        "takes them as well",
    ]
    assert "goes: weights: /r/qwen36 (22.0 GB)" in told(OUTPUT, weights=True)


def test_a_spark_that_was_never_touched():
    assert told([line for line in OUTPUT if line.startswith("@@")]) == []


def test_a_folder_that_nothing_proves_to_be_ours_stays():
    """The group data's root may be wrong: /usr has a `bin`, too."""
    found = parse_footprint(reworded(OUTPUT, proof=[]))
    assert found.folders == ()
    assert {entry.name for entry in found.strange} >= {"bin", "cache"}


def test_ssh_stays_open_where_ufw_stays_on():
    def rules(**words):
        return [rule.text for rule in parse_footprint(reworded(OUTPUT, **words)).rules]

    assert rules() == ["allow 8000/tcp"]
    assert rules(turned_on=["on"]) == ["allow 22/tcp", "allow 8000/tcp"]


def test_without_a_copy_no_key_of_docker_is_ours():
    lines = [*reworded(OUTPUT, previous=[])]
    assert not any(line.startswith("goes: settings of Docker") for line in told(lines))
    assert "stays: /etc/docker/daemon.json: nothing in it is known to be ours" in told(lines)


def test_half_a_footprint_is_no_footprint():
    with pytest.raises(ValueError, match="incomplete"):
        parse_footprint(OUTPUT[:-5])


def test_every_folder_that_a_deploy_makes_is_known():
    """A new one that `remove` does not know would be left behind, as not ours."""
    word = r"(?:ROOT|\{\{ root \}\}|\{root\}|\{\w+\.root\}|\{\w+\.data\.root\})/([a-z]\w*)"
    named = {
        name: str(path.relative_to(PROJECT))
        for folder in ("sparkwright", "files")
        for path in (PROJECT / folder).rglob("*")
        if path.suffix in (".py", ".sh", ".service", ".socket", ".timer", ".j2")
        for name in re.findall(word, path.read_text())
    }
    assert named.keys() >= {"bin", "jobs", "releases", "state"}
    assert {name: path for name, path in named.items() if name not in folder_names()} == {}


def test_every_unit_that_a_deploy_installs_is_known():
    """All are made of files below `files`, and those that code names are among them."""
    known = set(unit_names())
    assert known == {
        path.name
        for path in (PROJECT / "files").rglob("*")
        # Python keeps compiled code beside what it imports.
        if path.is_file() and path.suffix != ".pyc" and "\n[Unit]\n" in path.read_text()
    }
    code = "".join(path.read_text() for path in (PROJECT / "sparkwright").rglob("*.py"))
    assert "[Unit]" not in code
    named = set(re.findall(r'"([\w@-]+\.(?:service|socket|timer|path|slice|target|mount))"', code))
    others = ("docker", "earlyoom", "haproxy", "systemd-journald")
    assert named - {f"{name}.service" for name in others} <= known
    assert {"vllm@.service", "fabric-share.socket", "spark-metrics.timer", ALONE, PAIR} <= known


def test_every_unit_file_proves_itself_ours():
    """By what it sets: a comment is reworded without a thought of who reads it."""
    for name in unit_names():
        (path,) = (PROJECT / "files").rglob(name)
        settings = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        assert any("{{ root }}" in line for line in settings), path
