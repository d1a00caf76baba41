"""Packages of the system are held, let go and upgraded: a real apt, in a folder of its own."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from pyinfra.api.operation import OperationMeta

from host.upkeep.cleanup import system as cleanup
from host.upkeep.cleanup.remove import Removal
from sparkwright.common.placed import removal_table
from sparkwright.machine.host.operations.system import system_packages, upgrade
from tests.makers.apt_root import apt_root, installed, needs_apt
from tests.unit.driven import Driven, this_machine

pytestmark = needs_apt

KERNEL, IMAGE = "linux-nvidia-hwe-24.04", "linux-image-7.0.0-1019-nvidia"
DRIVER, TOOLKIT = "nvidia-driver-580-open", "nvidia-container-toolkit"
# By package: its versions, and what each needs.
ARCHIVE = {
    KERNEL: {"6.17.0-1032.32": "", "7.0.0-1019.19": IMAGE},
    IMAGE: {"7.0.0-1019.19": ""},
    DRIVER: {"580.173.02-0ubuntu1": "", "580.178.04-0ubuntu1": ""},
    f"{TOOLKIT}-base": {"1.18-1": "", "1.19-1": ""},
    TOOLKIT: {"1.18-1": f"{TOOLKIT}-base (= 1.18-1)", "1.19-1": f"{TOOLKIT}-base (= 1.19-1)"},
    "vim": {"1": "", "2": ""},
    "earlyoom": {"1": ""},
}
SYSTEM = {KERNEL, DRIVER, TOOLKIT, f"{TOOLKIT}-base"}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    for package, versions in ARCHIVE.items():
        for version, needs in versions.items():
            tree = folder / "tree"
            (tree / "DEBIAN").mkdir(parents=True)
            (tree / "DEBIAN/control").write_text(
                f"Package: {package}\nVersion: {version}\nArchitecture: all\n"
                f"Maintainer: a <a@example.org>\nDescription: x\n{needs and f'Depends: {needs}'}"
                f"{needs and chr(10)}"
            )
            words = ["dpkg-deb", "--build", "tree", f"{package}_{version}.deb"]
            subprocess.run(words, cwd=folder, check=True, capture_output=True)
            shutil.rmtree(tree)
    listed = subprocess.check_output(["apt-ftparchive", "packages", "."], cwd=folder)
    (folder / "Packages").write_bytes(listed)
    return folder


class System:
    """A folder that apt takes for the whole system, with the older version of each package."""

    def __init__(self, folder: Path, archive: Path) -> None:
        self.folder, self.archive = folder, archive
        self.spark: Driven = this_machine(root=str(folder / "r"), spark="a", hold_system=True)

    def run(self, *words: str) -> str:
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def converge(self, hold: bool = True) -> OperationMeta:
        self.spark.data["hold_system"] = hold
        return self.spark.run(system_packages)

    @property
    def held(self) -> set[str]:
        return {*self.run("apt-mark", "showhold").split()}

    @property
    def versions(self) -> dict[str, str]:
        shown = self.run("dpkg-query", "--show", "--showformat=${Package} ${Version}\n")
        return dict(line.split() for line in shown.splitlines())

    @property
    def record(self) -> Path:
        return self.folder / "r/state/held"


@pytest.fixture
def system(
    tmp_path: Path,
    archive: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> System:
    caplog.set_level("INFO")
    folder = apt_root(tmp_path, monkeypatch)
    (folder / "sources/a.list").write_text(f"deb [trusted=yes] file:{archive} ./\n")
    made = System(folder, archive)
    made.run("apt-get", "update")
    older = [f"{name}={min(of)}" for name, of in ARCHIVE.items() if len(of) > 1]
    made.run("apt-get", "install", "--yes", *older)
    return made


def test_the_systems_are_held_and_a_second_run_changes_nothing(system: System) -> None:
    assert system.spark.predicts_change(system_packages)
    assert system.held == set()
    assert system.converge().did_change()
    assert system.held == SYSTEM
    assert {*system.record.read_text().split()} == SYSTEM
    assert not system.converge().did_change()
    # What the system's own updates then bring.
    system.run("apt-get", "dist-upgrade", "--yes")
    assert system.versions["vim"] == "2"
    assert system.versions[KERNEL] == "6.17.0-1032.32"


def test_marks_of_the_owner_stay(system: System) -> None:
    system.run("apt-mark", "hold", DRIVER, "vim")
    assert system.converge().did_change()
    assert system.converge(hold=False).did_change()
    assert system.held == {DRIVER, "vim"}
    assert not system.record.exists()
    assert not system.converge(hold=False).did_change()


def test_remove_ends_the_marks_of_runs_alone(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "_ENVIRONMENT", dict(os.environ))
    system.run("apt-mark", "hold", DRIVER)
    system.converge()
    removal = Removal(removal_table(system.spark.data["root"]) | {"weights": False})
    part = removal._marks()
    assert {*next(part)} == SYSTEM - {DRIVER}
    next(part, None)
    assert system.held == {DRIVER}


def test_a_busy_dpkg_is_waited_for(system: System, caplog: pytest.LogCaptureFixture) -> None:
    system.spark.data["apt_patience_seconds"] = 0
    with (system.folder / "var/lib/dpkg/lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        assert not system.converge().did_succeed()
    assert "apt did not hold them: " in caplog.text
    assert system.converge().did_succeed()
    assert system.held == SYSTEM


def test_an_upgrade_takes_what_runs_hold_and_keeps_the_marks(
    system: System, caplog: pytest.LogCaptureFixture
) -> None:
    system.run("apt-mark", "hold", DRIVER)
    system.converge()
    assert system.spark.run(upgrade).did_succeed()
    # apt ends the marks of what it upgrades: deploys/upgrade.py has them made again.
    assert system.held == {DRIVER}
    assert system.converge().did_change()
    versions = system.versions
    assert (versions[KERNEL], versions[IMAGE]) == ("7.0.0-1019.19", "7.0.0-1019.19")
    assert versions[TOOLKIT] == versions[f"{TOOLKIT}-base"] == "1.19-1"
    # The owner's mark, and what is not of the system.
    assert (versions[DRIVER], versions["vim"]) == ("580.173.02-0ubuntu1", "1")
    # What the new kernel has brought is held as well.
    assert system.held == {*SYSTEM, IMAGE}
    assert f"kernel ({KERNEL}): expected 6.17.0-1032.32, found 7.0.0-1019.19 (held)" in caplog.text
    assert "[kernel-kho]" in caplog.text
    assert not system.converge().did_change()
    assert not system.spark.run(upgrade).did_change()


def test_a_package_of_ours_beside_held_ones(
    system: System, caplog: pytest.LogCaptureFixture
) -> None:
    """One that it needs in another version is in its way, and named."""
    system.converge()
    assert system.spark.run(installed, package="earlyoom").did_succeed()
    system.run("apt-get", "remove", "--yes", "--allow-change-held-packages", TOOLKIT)
    assert not system.spark.run(installed, package=TOOLKIT).did_succeed()
    assert "`apt-mark showhold`" in caplog.text
    system.converge(hold=False)
    assert system.spark.run(installed, package=TOOLKIT).did_succeed()
