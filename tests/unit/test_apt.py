"""The lab's apt repository under a real apt, and what the toolkit's stand-ins do."""

import json
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import apt

TOOLKIT = Path(apt.__file__).with_name("toolkit")

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("apt-get", "apt-ftparchive", "dpkg-deb", "gpg"))),
    reason="needs apt-get, apt-ftparchive, dpkg-deb and gpg",
)


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARKWRIGHT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield apt.ensure_repository()


@pytest.fixture(scope="module")
def url(repository: Path) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    server = subprocess.Popen(
        apt.serve_command(repository, address),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(address)
        yield f"http://{address}"
    finally:
        server.terminate()
        server.wait(timeout=10)


def wait_for(address: str) -> None:
    host, _, port = address.partition(":")
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


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
            timeout=60,
        )


@pytest.mark.parametrize("architecture", apt.ARCHITECTURES)
def test_apt_takes_the_package(
    url: str, repository: Path, tmp_path: Path, architecture: str
) -> None:
    key = tmp_path / "key.asc"
    shutil.copy(repository / "gpgkey", key)
    get = Apt(tmp_path / "apt", url, key, architecture)
    update = get("update")
    assert update.returncode == 0, update.stderr
    download = get("download", apt.PACKAGE)
    assert download.returncode == 0, download.stderr
    (deb,) = get.folder.glob("*.deb")
    assert deb.read_bytes() == (repository / "deb" / architecture / deb.name).read_bytes()


def test_another_key_is_refused(url: str, tmp_path: Path) -> None:
    with apt.signing_key() as home:
        key = tmp_path / "key.asc"
        export = ["gpg", "--homedir", str(home), "--armor", "--export"]
        key.write_bytes(subprocess.run(export, check=True, capture_output=True).stdout)
    get = Apt(tmp_path / "apt", url, key, "amd64")
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


def test_the_hook_fails_without_a_driver(tmp_path: Path) -> None:
    done = prestart(tmp_path, tmp_path)
    assert done.returncode == 1
    assert "libnvidia-ml.so.1" in done.stderr
