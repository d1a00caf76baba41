"""The lab's apt repository under a real apt, and what the toolkit's stand-ins do."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.clock import patience
from tests.lab import apt

TOOLKIT = Path(apt.__file__).with_name("toolkit")

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("apt-get", "apt-ftparchive", "dpkg-deb", "gpg"))),
    reason="needs apt-get, apt-ftparchive, dpkg-deb and gpg",
)


class Apt:
    """A real apt whose sources, state and cache are a folder of its own."""

    def __init__(self, folder: Path, url: str, key: Path, architecture: str) -> None:
        for name in ("sources.list.d", "lists/partial", "archives/partial"):
            (folder / name).mkdir(parents=True)
        (folder / "status").touch()
        (folder / "sources.list.d/toolkit.sources").write_text(
            f"Types: deb\nURIs: {url}/deb/$(ARCH)\nSuites: /\nSigned-By: {key}\n"
        )
        settings = {
            "APT::Architecture": architecture,
            "APT::Architectures": architecture,
            # The unprivileged user of apt's downloads has no way into pytest's folders.
            "APT::Sandbox::User": "root",
            "APT::Update::Error-Mode": "any",
            "Acquire::http::Proxy": "DIRECT",
            "Acquire::Retries": "0",
            "Dir::Etc::SourceList": "/dev/null",
            "Dir::Etc::SourceParts": folder / "sources.list.d",
            "Dir::State::Lists": folder / "lists",
            "Dir::State::status": folder / "status",
            "Dir::Cache": folder,
        }
        self.folder = folder
        self.options = [f"-o{key}={value}" for key, value in settings.items()]

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["apt-get", *self.options, *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=patience(),
        )


@pytest.mark.parametrize("architecture", apt.ARCHITECTURES)
def test_apt_takes_the_package(
    repository_url: str, repository: Path, tmp_path: Path, architecture: str
) -> None:
    key = tmp_path / "key.asc"
    shutil.copy(repository / "gpgkey", key)
    get = Apt(tmp_path / "apt", repository_url, key, architecture)
    update = get("update")
    assert update.returncode == 0, update.stderr
    download = get("download", apt.PACKAGE)
    assert download.returncode == 0, download.stderr
    (deb,) = get.folder.glob("*.deb")
    assert deb.read_bytes() == (repository / "deb" / architecture / deb.name).read_bytes()


def test_another_key_is_refused(repository_url: str, tmp_path: Path) -> None:
    with apt.signing_key() as home:
        key = tmp_path / "key.asc"
        export = ["gpg", "--homedir", str(home), "--armor", "--export"]
        key.write_bytes(subprocess.run(export, check=True, capture_output=True).stdout)
    get = Apt(tmp_path / "apt", repository_url, key, "amd64")
    update = get("update")
    assert update.returncode != 0
    assert "is not signed" in update.stderr
    assert get("download", apt.PACKAGE).returncode != 0
    assert not home.exists()


def test_fingerprint(repository: Path, tmp_path: Path) -> None:
    found = apt.fingerprint(repository)
    assert re.fullmatch(r"[0-9A-F]{40}", found)
    keyring = tmp_path / "keyring.gpg"
    dearmor = ["gpg", "--homedir", str(tmp_path), "--dearmor", "--output", str(keyring)]
    subprocess.run([*dearmor, str(repository / "gpgkey")], check=True)
    for signed in (["Release.gpg", "Release"], ["InRelease"]):
        files = [str(repository / "deb/amd64" / name) for name in signed]
        check = ["gpgv", "--status-fd", "1", "--keyring", str(keyring), *files]
        verdict = subprocess.run(check, check=True, capture_output=True, text=True).stdout
        assert f"VALIDSIG {found}" in verdict


def test_the_package_holds_the_programs(repository: Path, tmp_path: Path) -> None:
    deb = next((repository / "deb/amd64").glob("*.deb"))
    subprocess.run(["dpkg-deb", "--extract", str(deb), str(tmp_path)], check=True)
    ctk = tmp_path / "usr/bin/nvidia-ctk"
    assert ctk.stat().st_mode & 0o777 == 0o755
    shown = subprocess.run([sys.executable, str(ctk), "--version"], capture_output=True, text=True)
    version = subprocess.run(
        ["dpkg-deb", "--field", str(deb), "Version"], capture_output=True, text=True
    ).stdout.strip()
    assert version.split("-")[0] in shown.stdout
    hook = (tmp_path / "usr/bin/nvidia-container-toolkit").resolve()
    assert hook.name == "nvidia-container-runtime-hook"


def configure(config: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, str(TOOLKIT / "nvidia-ctk"), "runtime", "configure"]
    options = ["--runtime=docker", f"--config={config}", *arguments]
    return subprocess.run([*program, *options], capture_output=True, text=True)


def test_configure_keeps_what_docker_had(tmp_path: Path) -> None:
    config = tmp_path / "daemon.json"
    before = {"insecure-registries": ["a:5000"], "runtimes": {"kata": {"path": "kata"}}}
    config.write_text(json.dumps(before))
    assert configure(config).returncode == 0
    runtime = {"args": [], "path": "nvidia-container-runtime"}
    before["runtimes"] = {"kata": {"path": "kata"}, "nvidia": runtime}
    assert json.loads(config.read_text()) == before
    assert configure(config, "--set-as-default").returncode == 0
    assert json.loads(config.read_text()) == before | {"default-runtime": "nvidia"}


def test_configure_without_and_with_broken_file(tmp_path: Path) -> None:
    config = tmp_path / "docker/daemon.json"
    assert configure(config).returncode == 0
    assert list(json.loads(config.read_text())) == ["runtimes"]
    config.write_text("{broken")
    assert configure(config).returncode != 0
    assert config.read_text() == "{broken"


def prestart(folder: Path, path: Path) -> subprocess.CompletedProcess[str]:
    """Run the hook as Docker does: the bundle's state on standard input."""
    bundle = folder / "bundle"
    bundle.mkdir()
    config = {"root": {"path": str(folder / "root")}}
    (bundle / "config.json").write_text(json.dumps(config))
    return subprocess.run(
        [sys.executable, str(TOOLKIT / "nvidia-container-runtime-hook"), "prestart"],
        input=json.dumps({"id": "c1", "bundle": str(bundle)}),
        env={"PATH": str(path)},
        capture_output=True,
        text=True,
    )


def test_the_hook_brings_nvidia_smi(tmp_path: Path) -> None:
    smi = tmp_path / "bin/nvidia-smi"
    smi.parent.mkdir()
    smi.write_text("#!/bin/sh\necho GB10\n")
    smi.chmod(0o755)
    done = prestart(tmp_path, smi.parent)
    assert done.returncode == 0, done.stderr
    inside = tmp_path / "root/usr/bin/nvidia-smi"
    assert subprocess.run([inside], capture_output=True, text=True).stdout == "GB10\n"


def created(folder: Path, *env: str, fault: str = "") -> tuple[int, dict[str, Any], str]:
    """Have the runtime create a container; return its status, the mounts and runc's log."""
    for name in ("bin", "bundle"):
        (folder / name).mkdir()
    for name in ("runc", "nvidia-smi"):
        (folder / "bin" / name).write_text("#!/bin/sh\n")
        (folder / "bin" / name).chmod(0o755)
    if fault:
        (folder / "fault").write_text(fault)
    config = folder / "bundle/config.json"
    config.write_text(json.dumps({"process": {"env": list(env)}, "mounts": []}))
    program = (TOOLKIT / "nvidia-container-runtime").read_text()
    program = program.replace("/etc/nvidia-container-runtime/lab-fault", str(folder / "fault"))
    done = subprocess.run(
        [sys.executable, "-", "--log", "log.json", "create", "--bundle", "bundle", "c1"],
        input=program,
        cwd=folder,
        env={"PATH": str(folder / "bin")},
        capture_output=True,
        text=True,
    )
    log = folder / "log.json"
    return done.returncode, json.loads(config.read_text()), log.read_text() if log.exists() else ""


def test_the_runtime_brings_the_driver_to_those_who_ask(tmp_path: Path) -> None:
    status, spec, _ = created(tmp_path, "NVIDIA_VISIBLE_DEVICES=all")
    assert status == 0
    assert "/usr/bin/nvidia-smi" in [mount["destination"] for mount in spec["mounts"]]


@pytest.mark.parametrize("value", ["", "void", "none"])
def test_the_runtime_brings_nothing_to_others(tmp_path: Path, value: str) -> None:
    status, spec, _ = created(tmp_path, f"NVIDIA_VISIBLE_DEVICES={value}", fault="broken")
    assert status == 0
    assert spec["mounts"] == []


def test_the_runtime_fails_as_it_is_told(tmp_path: Path) -> None:
    status, _, log = created(tmp_path, "NVIDIA_VISIBLE_DEVICES=all", fault="driver not loaded")
    assert status == 1
    assert json.loads(log)["msg"] == "driver not loaded"


def test_the_hook_fails_without_a_driver(tmp_path: Path) -> None:
    done = prestart(tmp_path, tmp_path)
    assert done.returncode == 1
    assert "libnvidia-ml.so.1" in done.stderr
