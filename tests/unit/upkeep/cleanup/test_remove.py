"""Leaving where systemd, Docker, apt and ufw are stand-ins: what goes, and what stays."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from host.upkeep.cleanup.remove import Removal
from host.upkeep.cleanup.system import without_ours
from sparkwright.common.placed import removal_table, unit_names
from sparkwright.machine.host.operations.services import sysctl
from sparkwright.plan.release.container import ALONE, PAIR
from tests.makers.shell import program
from tests.unit.driven import here

PROJECT = Path(__file__).parents[4]
RUNTIME = {"runtimes": {"nvidia": {"args": []}}}
OURS = {
    "log-opts": {"max-size": "50m"},
    "runtimes": {"nvidia": None},
    "proxies": {"http-proxy": "p"},
}
IMAGES = [
    ("sha256:11", 22, [], ["example.org/vllm@sha256:11"]),
    ("sha256:22", 23, ["sparkwright/mine:aa"], []),
    ("sha256:33", 9, None, None),
    ("sha256:44", 1, ["postgres:16"], []),
    ("sha256:55", 7, [], []),
]
CONTAINERS = [
    ("sha256:22", True, "/vllm-chat-1", {"sparkwright.release": "chat-1"}),
    ("sha256:11", False, "/owner", None),
    ("sha256:44", True, "/db", {}),
]
DOCKER = f"""
case "$*" in
"image ls"*) echo {" ".join(image[0] for image in IMAGES)} ;;
"image inspect"*) cat "$HERE/images" ;;
"ps --all --quiet --filter"*) echo 0123456789ab ;;
"ps"*) echo 0123456789ab cd ;;
"inspect"*) cat "$HERE/containers" ;;
esac"""


class Spark:
    """A root folder, /etc and programs that are a test's; each call of them is in `log`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "r"
        self.table: dict[str, Any] = removal_table(str(self.root)) | {
            "systemd": str(folder / "systemd"),
            "files": {str(folder / "journald/ours.conf"): "systemd-journald.service"},
            "daemon_json": str(folder / "daemon.json"),
            "netplan": str(folder / "netplan.yaml"),
            "users": (),
            "run": f"{folder}/run",
            "docker": OURS,
            "network": "sparkwright",
            "withdraw": "true",
            "weights": False,
            "more": "sparkwright remove --weights",
        }
        (folder / "bin").mkdir()
        programs = "systemctl docker ufw apt-get apt-mark dpkg-query systemd-run sysctl"
        self.standins(**dict.fromkeys(programs.split(), ""))

    def standins(self, **programs: str) -> None:
        for name, text in programs.items():
            said = f'echo "{name} $*" >> {self.folder}/log'
            program(self.folder / "bin" / name, f"{said}\n{text}")

    def file(self, path: str, text: str = "x") -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def look(self) -> dict[str, list[str]]:
        """Return the names of what goes, by their kind, without sizes; and of what stays."""
        found: dict[str, Any] = Removal(self.table).look()
        lines = [re.sub(r" [(][0-9.]+ [kMG]B[)]", "", line) for line in found["goes"]]
        goes = [line.removeprefix("goes: ").split(": ", 1) for line in lines]
        stays = sorted(line.removeprefix("stays: ") for line in found["stays"])
        return {what: names.split(", ") for what, names in goes} | {"stays": stays}

    def do(self) -> list[str]:
        """Remove it; return the calls that change something."""
        (self.folder / "log").write_text("")
        Removal(self.table).remove()
        asks = re.compile("dpkg-query|systemctl list|docker .*(ls|ps|inspect)|ufw show")
        calls = (self.folder / "log").read_text().splitlines()
        return [line for line in calls if not asks.match(line)]

    @property
    def files(self) -> list[str]:
        return sorted(
            str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()
        )


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spark:
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("HERE", str(tmp_path))
    monkeypatch.setattr("host.upkeep.cleanup.system._ENVIRONMENT", dict(os.environ))
    return Spark(tmp_path)


@pytest.fixture
def serving(spark: Spark) -> Spark:
    """A Spark that serves, beside things of its owner."""
    for name in ("vllm@.service", "switch@.service", "image@.service"):
        spark.file(f"systemd/{name}", f"ExecStart={spark.root}/bin/x")
    spark.file("systemd/benchmark.service", "ExecStart=/elsewhere")
    spark.file("systemd/vllm@.service.d/mine.conf")
    units = ("vllm@chat-1.service", "switch@chat-1.service", "ssh.service", "getty@tty1.service")
    listed = "\n".join(f"echo {unit} loaded active" for unit in units)
    names = ("Id", "Size", "RepoTags", "RepoDigests")
    images = [dict(zip(names, image, strict=True)) for image in IMAGES]
    spark.file("images", json.dumps(images))
    containers = [
        {"Image": id, "State": {"Running": runs}, "Name": name, "Config": {"Labels": labels}}
        for id, runs, name, labels in CONTAINERS
    ]
    spark.file("containers", json.dumps(containers))
    rules = ("22/tcp comment 'sparkwright ssh'", "8000/tcp comment 'sparkwright door'", "9000/tcp")
    spark.standins(
        systemctl=f'case "$1" in list-units)\n{listed} ;; esac',
        docker=DOCKER,
        ufw="\n".join(f'echo "ufw allow {rule}"' for rule in rules),
        **{"dpkg-query": 'echo "installed earlyoom"; echo "config-files haproxy"'},
        **{"apt-mark": '[ "$1" != showhold ] || printf "%s\\n" docker-ce linux-nvidia vim'},
    )
    spark.file(
        "netplan.yaml", "network:\n  ethernets:\n    fab0:\n      mtu: 1\n    fab1:\n      mtu: 1\n"
    )
    spark.file("journald/ours.conf")
    spark.file("run/systemd/system/vllm@chat-0.service")
    spark.file("run/sparkwright/turns.json")
    spark.file("daemon.json", json.dumps({"log-opts": {"max-size": "50m"}} | RUNTIME))
    spark.file("r/backups/daemon.json", json.dumps(RUNTIME))
    spark.file("r/state/sysctl", "vm.swappiness = 60\nvm.swappiness = 10\n")
    spark.file("r/state/installed", "earlyoom\nhaproxy\nearlyoom\n")
    spark.file("r/state/held", "linux-nvidia\ndocker-ce\ngone\n")
    orders = {
        "image@1": {"image": "example.org/vllm@sha256:11", "size": 1},
        "image-build@2": {"image": "sparkwright/mine:aa", "base": "example.org/vllm@sha256:11"},
        "image-copy": {
            "images": ["example.org/copied@sha256:33", "sha256:33"],
            "source": "http://x",
        },
    }
    for name, told in orders.items():
        spark.file(f"r/manifests/{name}.json", json.dumps(told))
    spark.file("r/releases/chat-1/run", "image=sha256:55 # sha256:44")
    for name in ("qwen36/.sparkwright.json", "qwen36/.sparkwright-set-aside/mine", "my notes/a"):
        spark.file(f"r/{name}")
    return spark


def test_what_goes_and_what_stays(serving: Spark) -> None:
    found, root, etc = serving.look(), serving.root, serving.folder
    assert {what: sorted(names) for what, names in found.items()} == {
        "units": ["switch@chat-1.service", "vllm@chat-1.service"],
        "containers": ["0123456789ab"],
        "rules of ufw": ["allow 8000/tcp"],
        "network": ["fab0", "fab1"],
        "settings": [f"{etc}/journald/ours.conf"],
        "marks of packages that are held": ["docker-ce", "linux-nvidia"],
        "settings of Docker": [f"our keys of {etc}/daemon.json"],
        "images": ["sha256:33", "sha256:55", "sparkwright/mine:aa"],
        "unit files": [f"{etc}/systemd/{name}@.service" for name in ("image", "switch", "vllm")],
        "folders": [f"{root}/{name}" for name in ("backups", "manifests", "releases", "state")],
        "stays": sorted(
            [
                f"{etc}/systemd/benchmark.service, which is not ours",
                f"{etc}/systemd/vllm@.service.d, which is not ours",
                f"{root}/my notes, which is not ours",
                f"{root}/qwen36/.sparkwright-set-aside: files of others",
                "image example.org/vllm@sha256:11: owner was made of it",
                f"weights: {root}/qwen36 (8 kB); sparkwright remove --weights takes them as well",
                "packages that runs have installed: sudo apt-get purge --auto-remove earlyoom",
            ]
        ),
    }
    serving.table["weights"] = True
    assert serving.look()["weights"] == [f"{root}/qwen36"]


def test_how_it_goes(serving: Spark) -> None:
    assert serving.do() == [
        "systemctl disable --quiet --now switch@chat-1.service",
        "systemctl disable --quiet --now vllm@chat-1.service",
        "systemctl unmask --runtime --quiet vllm@chat-0.service",
        "docker rm --force 0123456789ab",
        "ufw --force delete allow 8000/tcp",
        "systemd-run --quiet --collect --pipe --wait --expand-environment=no "
        "--unit=sparkwright-fabric /bin/sh -c true withdraw fab0 fab1",
        "sysctl --quiet --write vm.swappiness=60",
        "systemctl restart systemd-journald.service",
        "apt-mark showhold",
        "apt-mark unhold docker-ce linux-nvidia",
        # Docker is not restarted: a container of the owner's runs.
        "docker image rm --force sha256:22 sha256:33 sha256:55",
        "systemctl daemon-reload",
        "systemctl reset-failed switch@chat-1.service vllm@chat-1.service",
    ]
    assert not (serving.folder / "run/sparkwright/turns.json").exists()
    assert serving.files == [
        "my notes/a",
        "qwen36/.sparkwright-set-aside/mine",
        "qwen36/.sparkwright.json",
    ]
    assert json.loads((serving.folder / "daemon.json").read_text()) == RUNTIME
    assert not (serving.folder / "journald").exists()
    assert (serving.folder / "systemd/benchmark.service").exists()


def test_docker_restarts_where_that_ends_nothing(serving: Spark) -> None:
    serving.file("containers", "[]")
    assert "systemctl restart docker.service" in serving.do()


def test_ssh_stays_open_where_ufw_stays_on(serving: Spark) -> None:
    serving.file("r/state/firewall", "on\n")
    assert serving.look()["rules of ufw"] == ["allow 22/tcp", "allow 8000/tcp"]
    calls = serving.do()
    assert calls.index("ufw disable") < calls.index("ufw --force delete allow 22/tcp")


@pytest.mark.parametrize(
    ("text", "previous", "wanted"),
    [
        # Nothing but our keys has changed: byte for byte.
        ({"log-opts": {"max-size": "50m"}} | RUNTIME, " ", " "),
        (RUNTIME, json.dumps(RUNTIME, indent=1), None),
        # Another value by now is the owner's, and so is what was there before.
        ({"log-opts": {"max-size": "9m"}}, "{}", None),
        (
            {"log-opts": {"max-size": "9m"}, "mtu": 1400} | RUNTIME,
            "",
            {"log-opts": {"max-size": "9m"}, "mtu": 1400},
        ),
        ({"proxies": {"http-proxy": "p", "no-proxy": "x"}}, "{}", {"proxies": {"no-proxy": "x"}}),
        ("broken", "", None),
        ([1], "", None),
    ],
)
def test_dockers_configuration_without_our_keys(text: Any, previous: str, wanted: Any) -> None:
    given = text if isinstance(text, str) else json.dumps(text)
    if previous == " ":
        previous = wanted = "{ }\n"
    found = without_ours(given, previous, OURS)
    assert (json.loads(found) if found and not isinstance(wanted, str) else found) == wanted


def test_without_a_copy_no_key_of_docker_is_ours(serving: Spark) -> None:
    (serving.root / "backups/daemon.json").unlink()
    assert "settings of Docker" not in serving.look()


def test_a_folder_that_nothing_proves_to_be_ours_stays(spark: Spark) -> None:
    """The group data's root may be wrong: /usr has a `bin`, too."""
    spark.file("r/bin/x")
    assert "folders" not in spark.look()
    assert spark.look()["stays"] == [f"{spark.root}/bin, which is not ours"]


def test_without_a_record_no_package_is_asked_for(spark: Spark) -> None:
    """dpkg-query without names shows all packages of the system."""
    spark.standins(**{"dpkg-query": "echo installed bash"})
    assert spark.look() == {"stays": []}
    spark.file("r/state/installed", "")
    assert "bash" not in str(spark.look())


def test_a_root_folder_as_it_is_left(spark: Spark) -> None:
    for name in ("bin/x", "releases/a/run", "mine/notes", "qwen36/.sparkwright-set-aside/old.bin"):
        spark.file(f"r/{name}")
    for name in ("qwen36", "w"):
        spark.file(f"r/{name}/.sparkwright.json", "{}")
        spark.file(f"r/{name}/model.safetensors")
    (spark.root / "current").symlink_to("releases/a")
    # An owner may keep what is large on another disk, and what he has brought on one is his.
    for name, place in (("cache", "disk"), ("bundle", "usb")):
        spark.file(f"{place}/file")
        (spark.root / name).symlink_to(spark.folder / place)
    spark.do()
    weights = ["qwen36/.sparkwright-set-aside/old.bin", "qwen36/.sparkwright.json"]
    weights += ["qwen36/model.safetensors", "w/.sparkwright.json", "w/model.safetensors"]
    assert spark.files == ["mine/notes", *weights]
    assert list((spark.folder / "disk").iterdir()) == []
    assert (spark.folder / "usb/file").exists()
    assert not (spark.root / "bundle").is_symlink()
    assert list(spark.look()) == ["stays"]
    spark.table["weights"] = True
    spark.do()
    assert spark.files == ["mine/notes", "qwen36/.sparkwright-set-aside/old.bin"]
    shutil.rmtree(spark.root / "mine")
    shutil.rmtree(spark.root / "qwen36")
    (spark.root / "releases").mkdir()
    spark.do()
    assert not spark.root.exists()


def test_every_unit_that_a_deploy_installs_is_known_and_proves_itself_ours():
    """By what it sets: a comment is reworded without a thought of who reads it."""
    # All are made of files below `files`; Python keeps compiled code beside what it imports.
    files = (path for path in (PROJECT / "files").rglob("*") if path.suffix != ".pyc")
    texts = {path.name: path.read_text() for path in files if path.is_file()}
    units = {name: text for name, text in texts.items() if "\n[Unit]\n" in text}
    assert set(unit_names()) == units.keys()
    assert {"vllm@.service", "fabric-share.socket", "spark-metrics.timer", ALONE, PAIR} <= {*units}
    for name, text in units.items():
        settings = [line for line in text.splitlines() if not line.startswith("#")]
        assert any("{{ root }}" in line for line in settings), name


def test_parameters_are_written_down_as_they_were_first(spark: Spark, tmp_path: Path) -> None:
    spark.standins(
        sysctl='case $1 in vm.swappiness) echo "vm.swappiness = 60" ;; *) exit 255 ;; esac'
    )
    root = str(tmp_path)
    path, gone = f"{root}/current", "net.ipv4.conf.gone.arp_ignore"
    values = {"vm.swappiness": "10", gone: "1"}
    # The file belongs to root only on a real host; what is asked here is the record.
    here(root=root).run(sysctl, path=path, values=values)
    spark.standins(sysctl='echo "$1 = 10"')
    here(root=root).run(sysctl, path=path, values=values | {"vm.swappiness": "9"})
    record = (tmp_path / "state/sysctl").read_text().splitlines()
    assert record[0] == "vm.swappiness = 60"
    assert sum(line.startswith("vm.swappiness") for line in record) == 1


WITHDRAW = PROJECT / "files/host/network/fabric/withdraw.sh"
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
def test_a_fabric_that_cannot_go_stays_as_it_is_and_so_does_the_lan(
    spark: Spark, tmp_path: Path
) -> None:
    """That it goes where netplan works is in tests/system/test_pair."""
    spark.standins(systemctl="exit 3", netplan='[ "$1" = apply ]')
    folder = tmp_path / "netplan"
    folder.mkdir()
    (folder / "60-sparkwright-fabric.yaml").write_text("network: {version: 2}\n")
    script = WITHDRAW.read_text().replace("/etc/netplan", str(folder))
    private = ["unshare", "--net", "--mount", "sh", "-ec", NETWORK, "test", script, str(folder)]
    done = subprocess.run(private, capture_output=True, text=True, check=True)
    addresses = ["lan0 192.168.1.5/24", "fab0 192.168.100.11/24"]
    file = "60-sparkwright-fabric.yaml"
    assert done.stdout.splitlines() == ["status 1", file, *addresses, "9000"]
    assert "The fabric's settings are in force again" in done.stderr
