"""Ansible, with and without Mitogen, looking at what our run looks at on a converged Spark."""

import io
import json
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from sparkwright.common.placed import DAEMON_JSON, EARLYOOM, EXPORTER_DEFAULTS, JOURNALD, SYSCTL
from tests.benchmarks.tools import REQUIREMENTS, Cost, check_recap, measured
from tests.driver.client import PORT
from tests.driver.sparks import current
from tests.lab import cache, factory, rootfs
from tests.lab.spark import Handle
from tests.lab.state import KNOWN_HOSTS

PLAYBOOK = Path(__file__).with_name("playbook.yaml")
_ROOT = "/opt/qwen36"
_SYSTEMD = "/etc/systemd/system"
# What is compared with a copy: the playbook's name for it -> patterns of paths.
_FILES = {
    "docker": [DAEMON_JSON],
    "settings": [JOURNALD, EARLYOOM, SYSCTL],
    "programs": [f"{_ROOT}/bin/requirements.txt", f"{_ROOT}/bin/sparkwright-host-*"],
    "units": [
        *(f"{_SYSTEMD}/{name}" for name in ("weights@*", "image*", "door.*", "spark-metrics.*")),
        *(f"{_SYSTEMD}/{name}" for name in ("sparkwright.slice", "vllm@.*", "switch@.*")),
    ],
    "token": [f"{_ROOT}/secrets/hf-token"],
    "manifests": [f"{_ROOT}/manifests/*@*.json", f"{_ROOT}/hf/.requirements"],
    "door": [f"{_ROOT}/door/*.cfg", f"{_ROOT}/door/choice.map", f"{_ROOT}/door/keys"],
    "exporter": [EXPORTER_DEFAULTS],
    "release": [f"{_ROOT}/current/*", f"{_ROOT}/current/bin/*"],
}
_LINKS = [f"{_ROOT}/current", f"{_ROOT}/bin/sparkwright-host", "/usr/local/bin/sparkwright-host"]
_PACKAGES = ("docker.io", "nvidia-container-toolkit", "earlyoom", "haproxy")
_SERVICES = (
    *("docker.service", "systemd-journald.service", "earlyoom.service", "door.service"),
    *("prometheus-node-exporter.service", "spark-metrics.timer"),
)


@dataclass(frozen=True)
class Playbook:
    """The playbook, ready to run on a Spark; `items` counts those of loops, and other tasks."""

    folder: Path
    tasks: int
    items: int

    def run(self, mitogen: bool = False) -> Cost:
        python = cache.python("ansible", REQUIREMENTS)
        words = [str(python), "-m", "ansible", "playbook", "-i", f"{self.folder}/hosts"]
        words += ["-e", f"@{self.folder}/variables.json", str(PLAYBOOK)]
        cost, output = measured(words, self._settings(python, mitogen))
        check_recap(output, self.tasks)
        return cost

    def _settings(self, python: Path, mitogen: bool) -> Mapping[str, str]:
        options = {
            "ControlMaster": "auto",
            # Through what other tools do in between, and through the slow runs.
            "ControlPersist": "10m",
            "IdentitiesOnly": "yes",
            "UserKnownHostsFile": str(KNOWN_HOSTS),
        }
        variables = {
            "ANSIBLE_HOME": str(self.folder / "home"),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "home/tmp"),
            "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(self.folder / "cp"),
            "ANSIBLE_SSH_ARGS": " ".join(f"-o {key}={value}" for key, value in options.items()),
            "ANSIBLE_NOCOLOR": "true",
        }
        if mitogen:
            plugins = next(python.parents[1].glob("lib/*/site-packages/ansible_mitogen/plugins"))
            variables["ANSIBLE_STRATEGY"] = "mitogen_linear"
            variables["ANSIBLE_STRATEGY_PLUGINS"] = str(plugins / "strategy")
        return variables


@contextmanager
def playbook(spark: Handle) -> Iterator[Playbook]:
    """Take from a converged Spark what the playbook is to find there."""
    with TemporaryDirectory(prefix="ansible-") as name:
        folder = Path(name)
        variables = _variables(spark, folder / "content")
        (folder / "variables.json").write_text(json.dumps(variables))
        host = f"ansible_host={spark.address} ansible_user={factory.USER}"
        key = f"ansible_ssh_private_key_file={rootfs.keys() / 'id_ed25519'}"
        interpreter = "ansible_python_interpreter=/usr/bin/python3"
        (folder / "hosts").write_text(f"{spark.name} {host} {key} {interpreter}\n")
        tasks = yaml.safe_load(PLAYBOOK.read_text())[0]["tasks"]
        items = sum(_items(task, variables) for task in tasks)
        try:
            yield Playbook(folder, len(tasks), items)
        finally:
            for path in folder.glob("cp/*"):
                end = ["ssh", "-o", f"ControlPath={path}", "-O", "exit", spark.address]
                subprocess.run(end, stderr=subprocess.DEVNULL, check=False)


def _items(task: dict[str, object], variables: Mapping[str, object]) -> int:
    loop = task.get("loop")
    items = variables[str(loop).strip("{ }")] if loop else [None]
    assert isinstance(items, list)
    return len(items)


def _variables(spark: Handle, content: Path) -> dict[str, object]:
    release = current(spark)
    patterns = " ".join(pattern for group in _FILES.values() for pattern in group)
    folders = f"$(find {_ROOT} -maxdepth 1 -type d)"
    script = f"cd /; tar --create --no-recursion {patterns} {folders} {' '.join(_LINKS)}"
    archive = subprocess.run(
        spark.ssh_command(f"sudo sh -ec '{script}'"), capture_output=True, check=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        members = tar.getmembers()
        tar.extractall(content, [each for each in members if each.isfile()], filter="data")
    attributes = {f"/{member.name}": _attributes(member) for member in members}
    resolved = json.loads((content / f".{_ROOT}/current/release.json").read_text())
    found = {f"/{each.name}" for each in members if each.isfile()}
    files = {
        name: [
            each
            for path, each in attributes.items()
            if path in found and any(Path(path).match(pattern) for pattern in group)
        ]
        for name, group in _FILES.items()
    }
    return {
        **files,
        "root": _ROOT,
        "content": str(content),
        "packages": [*_PACKAGES, "prometheus-node-exporter"],
        "folders": [attributes[f"/{each.name}"] for each in members if each.isdir()],
        "links": [
            {"path": f"/{each.name}", "to": each.linkname} for each in members if each.issym()
        ],
        "weights": [f"{_ROOT}/{each['folder']}" for each in resolved["checkpoints"].values()],
        "image": resolved["image"],
        "services": [*_SERVICES, f"vllm@{release}.service"],
        "engine": f"{_ROOT}/sockets/engines/{release}/api.sock",
        "port": PORT,
    }


def _attributes(member: tarfile.TarInfo) -> dict[str, str]:
    return {
        "path": f"/{member.name}",
        "mode": f"{member.mode:04o}",
        "owner": member.uname,
        "group": member.gname,
    }
