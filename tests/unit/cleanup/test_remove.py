"""Leaving where systemd, Docker and apt are stand-ins: nothing else is touched."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sparkwright.cleanup.footprint_survey import footprint_script, parse_footprint
from sparkwright.cleanup.operations import (
    remove_files,
    remove_packages,
    restore_settings,
    stop_units,
)
from sparkwright.host import packages
from sparkwright.host.operations.services import sysctl
from sparkwright.host.packages import install_script, parse_attempt
from tests.unit.cleanup.test_footprint import OUTPUT
from tests.unit.driven import fake_host, this_machine
from tests.unit.sections import reworded

PROJECT = Path(__file__).parents[3]
OPTIONS = {"max-size": "50m", "max-file": "3"}


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


def test_a_package_that_others_need_stays(standins, tmp_path, monkeypatch):
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
    monkeypatch.setattr(packages, "_BEGIN", packages._BEGIN.replace("/run/lock", str(tmp_path)))
    spark = this_machine(apt_patience_seconds=0)
    assert spark.run(remove_packages, root=str(root)).did_succeed()
    assert calls(tmp_path)[-1].endswith("--option APT::Get::AutomaticRemove=false a")


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
    # What he has brought on a disk is his.
    (tmp_path / "usb").mkdir()
    (tmp_path / "usb/bundle.json").write_text("{}")
    (root / "bundle").symlink_to(tmp_path / "usb")
    (root / "qwen36/.sparkwright-set-aside/old.bin").write_text("x")
    (root / "mine/notes").write_text("x")

    def left():
        return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())

    run = this_machine().run
    assert run(remove_files, root=str(root), weights=False).did_change()
    weights = ["qwen36/.sparkwright-set-aside/old.bin", "qwen36/.sparkwright.json"]
    weights += ["qwen36/model.safetensors", "w/.sparkwright.json", "w/model.safetensors"]
    assert left() == ["mine/notes", *weights]
    assert list((tmp_path / "disk").iterdir()) == []
    assert (tmp_path / "usb/bundle.json").exists()
    assert not (root / "bundle").is_symlink()
    assert not run(remove_files, root=str(root), weights=False).did_change()
    assert run(remove_files, root=str(root), weights=True).did_change()
    assert left() == ["mine/notes", "qwen36/.sparkwright-set-aside/old.bin"]
    shutil.rmtree(root / "mine")
    shutil.rmtree(root / "qwen36")
    (root / "releases").mkdir()
    assert run(remove_files, root=str(root), weights=True).did_change()
    assert not root.exists()


def spark(**words):
    return fake_host({"@@unit-files": "\n".join(reworded(OUTPUT, **words))}, root="/r")


def test_what_would_start_an_engine_again_stops_first():
    host = spark()
    assert host.run(stop_units, root="/r").did_change()
    assert host.scripts()[1:] == [
        "systemctl disable --quiet --now switch@chat-1.service",
        "systemctl disable --quiet --now vllm@chat-1.service",
        "docker rm --force 0123456789ab",
    ]


def test_what_the_purge_of_a_package_leaves_goes_too():
    host = fake_host({"@@unit-files": "\n".join(OUTPUT), "apt-get": "@@done"}, root="/r")
    assert host.run(remove_packages, root="/r").did_change()
    assert host.scripts()[-1].startswith("rm -f /var/lib/haproxy/dev/log; rmdir ")


def test_settings_are_what_they_were():
    host = spark()
    assert host.run(restore_settings, root="/r", log_options=OPTIONS).did_change()
    assert host.scripts()[1:] == [
        "sysctl --quiet --write vm.swappiness=60 || true",
        "rm -f /etc/systemd/journald.conf.d/sparkwright.conf /etc/sysctl.d/90-sparkwright.conf",
        "rmdir --ignore-fail-on-non-empty /etc/systemd/journald.conf.d",
        "systemctl restart systemd-journald.service",
        "cat /r/backups/daemon.json > /etc/docker/daemon.json.new && "
        "mv /etc/docker/daemon.json.new /etc/docker/daemon.json",
    ]


def test_docker_restarts_where_that_ends_nothing():
    host = spark(made_of=["sha256:11 false /owner other"])
    host.run(restore_settings, root="/r", log_options=OPTIONS)
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
    script = install_script("earlyoom", str(tmp_path / "state"), update=False)
    script = script.replace("/run/lock", str(tmp_path))
    for _ in range(2):
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True)
        assert not parse_attempt(done.stdout.splitlines()).done
    # Once, however often it is tried.
    assert (tmp_path / "state/installed").read_text() == "libnew:arm64\nearlyoom\n"


def test_parameters_are_written_down_as_they_were_first(standins, tmp_path):
    standins(sysctl='case $1 in vm.swappiness) echo "vm.swappiness = 60" ;; *) exit 255 ;; esac')
    root = str(tmp_path)
    path, gone = f"{root}/current", "net.ipv4.conf.gone.arp_ignore"
    values = {"vm.swappiness": "10", gone: "1"}
    # The file belongs to root only on a real host; what is asked here is the record.
    this_machine(root=root).run(sysctl, path=path, values=values)
    standins(sysctl='echo "$1 = 10"')
    this_machine(root=root).run(sysctl, path=path, values=values | {"vm.swappiness": "9"})
    record = (tmp_path / "state/sysctl").read_text().splitlines()
    assert record[0] == "vm.swappiness = 60"
    assert sum(line.startswith("vm.swappiness") for line in record) == 1


WITHDRAW = PROJECT / "files/host/fabric/withdraw.sh"
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
