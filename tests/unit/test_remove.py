"""Leaving: what counts as ours, and that nothing else is touched."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from deploys.operations.remove import files_removed, packages_removed, settings_restored, stopped
from deploys.operations.services import install, sysctl
from deploys.plan.daemon_json import merged, without_ours
from deploys.plan.errors import PlanError
from deploys.plan.footprint import OWN
from deploys.plan.footprint_survey import footprint_script, parse_footprint, unit_names
from deploys.plan.remove import checked_weights, report
from tests.unit.driven import fake_host, this_machine
from tests.unit.sections import reworded

PROJECT = Path(__file__).parents[2]
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
@@former
known
{"runtimes": {"nvidia": {}}}
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
        "stays: weights: /r/qwen36 (22.0 GB); --data weights=remove takes them as well",
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
    lines = [*reworded(OUTPUT, former=[])]
    assert not any(line.startswith("goes: settings of Docker") for line in told(lines))
    assert "stays: /etc/docker/daemon.json: nothing in it is known to be ours" in told(lines)


def test_half_a_footprint_is_no_footprint():
    with pytest.raises(ValueError, match="incomplete"):
        parse_footprint(OUTPUT[:-5])


@pytest.mark.parametrize(("found", "expected"), [(None, False), ("remove", True)])
def test_weights(found, expected):
    assert checked_weights(found) is expected


def test_weights_are_not_removed_by_a_slip():
    with pytest.raises(PlanError, match="--data weights: found 'removed'; expected remove"):
        checked_weights("removed")


NVIDIA = {"nvidia": {"args": [], "path": "nvidia-container-runtime"}}


@pytest.mark.parametrize(
    "former",
    [
        "",
        "{}\n",
        '{"runtimes": {"nvidia": {}}, "max-concurrent-downloads": 4}',
        '{"log-opts": {"max-size": "1g"}}',
        '{"log-opts": {}, "runtimes": {}}',
        '{"log-driver": "journald"}',
    ],
)
def test_what_deploys_add_to_daemon_json_goes_again(former):
    text = merged(former, OPTIONS)
    with_runtime = json.loads(text or "{}")
    with_runtime.setdefault("runtimes", {}).setdefault("nvidia", NVIDIA["nvidia"])
    assert without_ours(json.dumps(with_runtime), former, OPTIONS) == former


def test_what_the_owner_changed_since_then_stays():
    now = {"log-opts": {"max-size": "9m", "max-file": "3"}, "mtu": 1400, "runtimes": NVIDIA}
    assert json.loads(without_ours(json.dumps(now), "", OPTIONS)) == {
        "log-opts": {"max-size": "9m"},
        "mtu": 1400,
    }


def test_every_folder_that_a_deploy_makes_is_known():
    """A new one that `remove` does not know would be left behind, as not ours."""
    word = r"(?:ROOT|\{root\}|\{\w+\.root\}|\{\w+\.data\.root\})/([a-z]\w*)"
    named = {
        name: str(path.relative_to(PROJECT))
        for folder in ("deploys", "files")
        for path in (PROJECT / folder).rglob("*")
        if path.suffix in (".py", ".sh", ".service", ".socket", ".timer", ".j2")
        for name in re.findall(word, path.read_text())
    }
    assert named.keys() >= {"bin", "jobs", "releases", "state"}
    assert {name: path for name, path in named.items() if name not in OWN} == {}


def test_every_unit_file_proves_itself_ours():
    assert {"vllm@.service", "fabric-share.socket"} <= set(unit_names())
    for kind in ("service", "socket", "timer", "path"):
        for path in (PROJECT / "files").rglob(f"*.{kind}"):
            assert "ROOT/" in path.read_text(), path


# The script and the operations where systemd, Docker and apt are stand-ins.


@pytest.fixture
def standins(tmp_path, monkeypatch):
    """A folder first on PATH for programs that a test writes; each call of them is in `log`."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def write(**programs):
        for name, text in programs.items():
            path = folder / name.replace("_", "-")
            path.write_text(f'#!/bin/sh\necho "{path.name} $*" >> {tmp_path}/log\n{text}\n')
            path.chmod(0o755)

    write(systemctl="", docker="exit 1", dpkg_query="", apt_get="", ufw="exit 1", ss="", sshd="")
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return write


def read(root):
    done = subprocess.run(
        ["sh", "-c", footprint_script(str(root))], capture_output=True, text=True, check=True
    )
    return parse_footprint(done.stdout.splitlines())


def calls(tmp_path):
    log = tmp_path / "log"
    return log.read_text().splitlines() if log.exists() else []


def test_without_a_record_no_package_is_asked_for(standins, tmp_path):
    """dpkg-query without names shows all packages of the system."""
    standins(dpkg_query="echo installed bash")
    root = tmp_path / "r"
    assert read(root).packages == ()
    (root / "state").mkdir(parents=True)
    (root / "state/installed").write_text("")
    assert read(root).packages == ()
    assert not any(call.startswith("dpkg-query") for call in calls(tmp_path))


def test_a_package_that_others_need_stays(standins, tmp_path):
    standins(
        dpkg_query="echo installed a; echo installed b; echo config-files c",
        # b is needed by d, which is not ours.
        apt_get='case $* in *" b"*) echo "Purg d [1]"; echo "Purg b [1]" ;; esac; '
        'case $* in *" a"*) echo "Purg a:arm64 [1]" ;; esac',
    )
    root = tmp_path / "r"
    (root / "state").mkdir(parents=True)
    (root / "state/installed").write_text("a\nb\nc\na\n")
    found = read(root)
    assert found.packages == ("a", "b")
    assert found.needed == {"b": ("d",)}
    assert this_machine().run(packages_removed, root=str(root)).did_change()
    assert calls(tmp_path)[-1].endswith(
        "purge --quiet --yes --option APT::Get::AutomaticRemove=false a"
    )


def test_a_root_folder_as_it_is_left(standins, tmp_path):
    root = tmp_path / "r"
    for name in ("bin", "releases/a", "manifests", "mine", "qwen36/.sparkwright-set-aside", "w"):
        (root / name).mkdir(parents=True)
    for name in ("qwen36", "w"):
        (root / name / ".sparkwright.json").write_text("{}")
        (root / name / "model.safetensors").write_text("x")
    (root / "current").symlink_to("releases/a")
    # An owner may keep what is large on another disk.
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk/kernel").write_text("x")
    (root / "cache").symlink_to(tmp_path / "disk")
    (root / "qwen36/.sparkwright-set-aside/old.bin").write_text("x")
    (root / "mine/notes").write_text("x")

    def left():
        return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())

    run = this_machine().run
    assert run(files_removed, root=str(root), weights=False).did_change()
    weights = ["qwen36/.sparkwright-set-aside/old.bin", "qwen36/.sparkwright.json"]
    weights += ["qwen36/model.safetensors", "w/.sparkwright.json", "w/model.safetensors"]
    assert left() == ["mine/notes", *weights]
    assert list((tmp_path / "disk").iterdir()) == []
    assert not run(files_removed, root=str(root), weights=False).did_change()
    assert run(files_removed, root=str(root), weights=True).did_change()
    assert left() == ["mine/notes", "qwen36/.sparkwright-set-aside/old.bin"]
    shutil.rmtree(root / "mine")
    shutil.rmtree(root / "qwen36")
    (root / "releases").mkdir()
    assert run(files_removed, root=str(root), weights=True).did_change()
    assert not root.exists()


def spark(**words):
    return fake_host({"@@unit-files": "\n".join(reworded(OUTPUT, **words))}, root="/r")


def test_what_would_start_an_engine_again_stops_first():
    host = spark()
    assert host.run(stopped, root="/r").did_change()
    assert host.scripts()[1:] == [
        "systemctl disable --quiet --now switch@chat-1.service",
        "systemctl disable --quiet --now vllm@chat-1.service",
        "docker rm --force 0123456789ab",
    ]


def test_settings_are_what_they_were():
    host = spark()
    assert host.run(settings_restored, root="/r", log_options=OPTIONS).did_change()
    assert host.scripts()[1:] == [
        "sysctl --quiet --write vm.swappiness=60 || true",
        "rm -f /etc/systemd/journald.conf.d/sparkwright.conf /etc/sysctl.d/90-sparkwright.conf",
        "rmdir --ignore-fail-on-non-empty /etc/systemd/journald.conf.d",
        "systemctl restart systemd-journald.service",
        "cat /r/backups/daemon.json > /etc/docker/daemon.json",
    ]


def test_docker_restarts_where_that_ends_nothing():
    host = spark(made_of=["sha256:11 false /owner other"])
    host.run(settings_restored, root="/r", log_options=OPTIONS)
    assert host.scripts()[-1] == "systemctl restart docker.service"


def test_an_installation_is_written_down_before_it_is_made(standins, tmp_path):
    standins(
        apt_get="""
case $* in
*--simulate*) echo 'Inst libnew:arm64 (1.0 Debian:13/stable [arm64])'
  echo 'Inst old [1.0] (1.1 Debian:13/stable [all])'
  echo 'Inst earlyoom (1.8 Debian:13/stable [arm64])' ;;
*install*) exit 100 ;;
esac"""
    )
    machine = this_machine(root=str(tmp_path / "r"))
    with machine.current() as host:
        done = host.run_shell_command(install("earlyoom"))
    assert not done[0]
    assert (tmp_path / "r/state/installed").read_text() == "libnew:arm64\nearlyoom\n"


def test_parameters_are_written_down_as_they_were_first(standins, tmp_path):
    standins(sysctl='case $1 in vm.swappiness) echo "vm.swappiness = 60" ;; *) exit 255 ;; esac')
    path, root = str(tmp_path / "90.conf"), str(tmp_path / "r")
    values = {"vm.swappiness": "10", "net.gone": "1"}
    # The file belongs to root only on a real host; what is asked here is the record.
    this_machine(root=root).run(sysctl, path=path, values=values)
    standins(sysctl='echo "$1 = 10"')
    this_machine(root=root).run(sysctl, path=path, values=values | {"vm.swappiness": "9"})
    record = (tmp_path / "r/state/sysctl").read_text().splitlines()
    assert record[0] == "vm.swappiness = 60"
    assert sum(line.startswith("vm.swappiness") for line in record) == 1


WITHDRAW = PROJECT / "files/fabric/withdraw.sh"
NETWORK = """
mount -t sysfs none /sys
for name in lan0 fab0 fab1; do
  ip link add $name type veth peer name $name-end
  ip link set $name-end up; ip link set $name up
done
ip address add 192.168.1.5/24 dev lan0; ip route add default via 192.168.1.1 dev lan0
ip address add 192.168.100.11/24 dev fab0; ip link set fab0 mtu 9000
status=0; sh -c "$1" withdraw fab0 fab1 || status=$?; echo "status $status"
ls "$2"; ip -o -4 address | awk '{print $2, $4}'; cat /sys/class/net/fab0/mtu
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("ip"), reason="needs root and the program ip"
)
@pytest.mark.parametrize("works", [True, False])
def test_the_fabric_goes_and_the_lan_stays(standins, tmp_path, works):
    standins(systemctl="exit 3", netplan="true" if works else '[ "$1" = apply ]')
    folder = tmp_path / "netplan"
    folder.mkdir()
    (folder / "60-sparkwright-fabric.yaml").write_text("network: {version: 2}\n")
    script = WITHDRAW.read_text().replace("/etc/netplan", str(folder))
    private = ["unshare", "--net", "--mount", "sh", "-ec", NETWORK, "test"]
    done = subprocess.run(
        [*private, script, str(folder)], capture_output=True, text=True, check=True
    )
    lan = ["lan0 192.168.1.5/24"]
    if works:
        assert done.stdout.splitlines() == ["status 0", *lan, "1500"]
    else:
        fabric = ["fab0 192.168.100.11/24", "9000"]
        assert done.stdout.splitlines() == ["status 1", "60-sparkwright-fabric.yaml", *lan, *fabric]
        assert "The fabric's settings are in force again" in done.stderr
