"""A package comes beside others who use apt: a real apt, which takes a folder for its system."""

import fcntl
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkwright.artifacts.bundle.downloads import download_packages
from sparkwright.machine.host.operations.packages import (
    attempt,
    holder,
    parse_attempt,
)
from tests.clock import patience
from tests.component.servers import free_port, listens, until
from tests.lab import apt
from tests.makers.apt_root import apt_root, installed, needs_apt
from tests.makers.bundle import write_index
from tests.programs import ended, script
from tests.unit.driven import Driven, this_machine

pytestmark = needs_apt

# What the package asks for.
_STATUS = "Package: python3\nStatus: install ok installed\nArchitecture: {}\nVersion: 3.11\n\n"


class Root:
    """A folder that apt takes for the whole system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.spark: Driven = this_machine(root=str(folder / "r"), apt_patience_seconds=3600)

    def install(self) -> bool:
        return self.spark.run(installed, package=apt.PACKAGE).did_succeed()

    @property
    def has_it(self) -> bool:
        return (self.folder / "usr/bin/nvidia-ctk").exists()

    @property
    def updates(self) -> list[bool]:
        """Of each attempt, whether it was to fetch the lists."""
        return ["update=yes" in script for script in self.spark.scripts() if "apt-get" in script]


def _architecture() -> str:
    return subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The repository, in a cache of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARKWRIGHT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield apt.ensure_repository()


@pytest.fixture(scope="module")
def repository_url(repository: Path) -> Iterator[str]:
    port = free_port()
    address = f"127.0.0.1:{port}"
    server = subprocess.Popen(
        apt.serve_command(repository, address), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: listens(port))
        yield f"http://{address}"
    finally:
        server.terminate()
        server.wait(timeout=patience())


@pytest.fixture
def root(
    tmp_path: Path,
    repository_url: str,
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> Root:
    caplog.set_level("INFO")
    folder = apt_root(tmp_path, monkeypatch, _STATUS.format(_architecture()))
    shutil.copy(repository / "gpgkey", folder / "key.asc")
    (folder / "sources/toolkit.sources").write_text(
        f"Types: deb\nURIs: {repository_url}/deb/$(ARCH)\nSuites: /\nSigned-By: {folder}/key.asc\n"
    )
    return Root(folder)


def test_it_is_installed_and_written_down(root: Root) -> None:
    assert root.install()
    assert root.has_it
    # Once, however often a run asks for it.
    assert root.install()
    assert (root.folder / "r/state/installed").read_text() == f"{apt.PACKAGE}\n"
    assert root.updates == [True, False]


def test_sources_that_contradict_each_other_are_named(
    root: Root, repository_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    (root.folder / "sources/theirs.list").write_text(
        f"deb [trusted=no] {repository_url}/deb/$(ARCH) /\n"
    )
    assert not root.install()
    assert "Two of apt's source files disagree" in caplog.text


def test_a_loss_of_power_amid_one_is_mended_first(
    root: Root, caplog: pytest.LogCaptureFixture
) -> None:
    # What dpkg leaves there is a part of its status that it had no time to merge.
    status = (root.folder / "var/lib/dpkg/status").read_text().rstrip("\n")
    (root.folder / "var/lib/dpkg/updates/0001").write_text(f"{status}\n")
    assert root.install()
    assert root.has_it
    assert "an installation that had been cut off was completed" in caplog.text


@pytest.fixture
def offline(
    root: Root, repository_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Root:
    """A root whose sources cannot be reached, of a site that has a bundle."""
    name = _architecture()
    source = f"deb [signed-by={root.folder}/key.asc] {repository_url}/deb/{name} /"
    place = tmp_path / f"bundle/packages/{name}"
    wanted = [apt.PACKAGE, "earlyoom"]
    download_packages(wanted, name, [source], place)
    said = capsys.readouterr().err
    assert "packages: no source has earlyoom: a Spark is to have it already" in said
    pin(root, tmp_path)
    (root.folder / "sources/toolkit.sources").write_text(
        f"Types: deb\nURIs: http://127.0.0.1:1\nSuites: /\nSigned-By: {root.folder}/key.asc\n"
    )
    return root


def pin(root: Root, tmp_path: Path) -> None:
    """Write the bundle's index, and an inventory that has its digest."""
    folder = tmp_path / "bundle"
    digest = write_index(folder)
    inventory = tmp_path / f"sparks-{digest[:8]}.yaml"
    inventory.write_text(
        "sparks: {spark-a: {ssh_hostname: 192.168.1.20}}\n"
        f"source: {{bundle: {folder}, sha256: {digest}}}\n"
    )
    root.spark.data["fleet"] = str(inventory)


@pytest.mark.parametrize("signed", [False, True])
def test_an_exchanged_package_is_not_installed(
    offline: Root, tmp_path: Path, signed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Even with an index of its own, for an owner who took its digest from the same disk."""
    (deb,) = (tmp_path / "bundle/packages").rglob("*.deb")
    content = tmp_path / "deb"
    subprocess.run(["dpkg-deb", "--raw-extract", deb, content], check=True)
    # It would show who ran it, under the same name and version.
    script(content / "DEBIAN/postinst", f"#!/bin/sh\nid >{tmp_path}/was-here\n")
    subprocess.run(["dpkg-deb", "--build", content, deb], check=True, capture_output=True)
    if signed:
        # The archive's lists name what is there, signed by another key.
        with apt.signing_key() as home:
            (deb.parent / "InRelease").unlink()
            apt.write_index(deb.parent, home, deb.stem.rpartition("_")[2])
    pin(offline, tmp_path)
    assert not offline.install()
    assert not (tmp_path / "was-here").exists()
    assert not offline.has_it
    if signed:
        assert "The Spark's apt has no key that vouches for these packages" in caplog.text


def test_a_package_that_a_bundle_lacks_is_named(
    offline: Root, caplog: pytest.LogCaptureFixture
) -> None:
    assert not offline.spark.run(installed, package="earlyoom").did_succeed()
    assert "bundle.json: files: found no packages/" in caplog.text
    assert "expected it, as earlyoom is needed: run `sparkwright bundle" in caplog.text


def test_one_that_a_killed_run_began_is_waited_for(tmp_path: Path) -> None:
    """Its shell is gone with the connection; apt-get is not."""
    with (tmp_path / "sparkwright-apt").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        script = attempt({"package": "earlyoom", "doing": "install"}, {})
        said = ended(["sh", "-c", script.replace("/run/lock", str(tmp_path))]).stdout
    held = holder(parse_attempt(said.splitlines())["held"])
    assert held.endswith("is held by apt-get of an earlier run")
