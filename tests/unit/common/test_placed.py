"""The table of what we place on a host: who reads it, and what is not in it is refused."""

import getpass
import re
from pathlib import Path
from typing import Any

import pytest
from pyinfra.api.operations import run_ops

from sparkwright.common import placed
from sparkwright.common.files import Directory, Entry, ManagedFile, Symlink
from sparkwright.common.operations import look
from sparkwright.common.placed import FILES, Folder, removal_table
from sparkwright.machine.host.deploy import folders
from sparkwright.machine.host.operations.files import managed_files
from sparkwright.machine.host.operations.packages import install
from sparkwright.machine.host.operations.services import sysctl
from tests.makers.recipe import problems
from tests.unit.driven import fake_host, this_machine

PROJECT = Path(__file__).parents[3]
NEW = "of-a-test"

needs_root = pytest.mark.skipif(getpass.getuser() != "root", reason="folders belong to root")


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have one more folder in the table."""
    monkeypatch.setattr(placed, "FOLDERS", (*placed.FOLDERS, Folder(NEW, mode="700")))


@needs_root
@pytest.mark.usefixtures("folder")
def test_a_folder_is_made_compared_and_removed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    spark = this_machine(root=str(root))
    with spark.current() as host:
        folders()
        run_ops(host.state)
    assert (root / NEW).stat().st_mode & 0o777 == 0o700
    with spark.current():
        assert look(folders) == []
    (root / NEW).chmod(0o755)
    with spark.current():
        assert look(folders) == [(f"{root}/{NEW}", "root:root 700", "root:root 755")]
    assert NEW in removal_table("/r")["folders"]


@pytest.mark.usefixtures("folder")
def test_weights_do_not_get_its_name(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, checkpoints={"model": {"repo": "owner/model", "folder": NEW}})
    assert NEW in problem.rpartition("expected another folder than ")[2]


@pytest.mark.parametrize(
    "entry",
    [
        ManagedFile("/etc/of-a-test.conf", "x"),
        ManagedFile("/etc/systemd/system/of-a-test.service", "x"),
        ManagedFile("/r/of-a-test/x", "x"),
        Directory("/r/of-a-test"),
        Directory("/rr/bin"),
        Symlink("/r/of-a-test", "releases/x"),
    ],
)
def test_a_path_that_is_not_in_it_is_refused(entry: Entry) -> None:
    spark = fake_host(root="/r")
    with pytest.raises(LookupError, match=f"found no {entry.path}$"):
        spark.run(managed_files, entries=[Directory("/r"), entry])
    assert spark.commands == []


def test_a_package_or_parameter_that_is_not_in_it_is_refused() -> None:
    with pytest.raises(LookupError, match="found no of-a-test"):
        install("of-a-test")
    spark = fake_host(root="/r")
    arguments: dict[str, Any] = {"path": placed.SYSCTL, "values": {"vm.overcommit_memory": "2"}}
    with pytest.raises(LookupError, match=r"found no vm\.overcommit_memory"):
        spark.run(sysctl, **arguments)
    assert spark.commands == []


# What our programs only read, what systemd makes for a unit that is enabled, and Docker's.
READ = {
    *("/etc/debian_version", "/etc/ld.so.conf", "/etc/os-release", "/etc/hosts", "/etc/machine-id"),
    *("/etc/ssl/certs/ca-certificates.crt", "/etc/systemd/system/multi-user.target.wants"),
    *("/var/lib/docker", "/var/lib/containerd", "/etc/netplan/90-NM-"),
    # The package haproxy makes it; a socket of the gateway's unit is there as long as it runs.
    *("/var/lib/haproxy", "/var/lib/haproxy/gateway.sock"),
    *("/etc/dgx-release", "/etc/apt", "/etc/apt/sources.list", "/etc/passwd", "/etc/group"),
    *("/etc/containerd/config.toml", "/usr/lib/netplan"),
    *("/etc/NetworkManager", "/etc/NetworkManager/system-connections"),
    *("/etc/default/ufw", "/etc/ufw/user.rules", "/etc/ufw/user6.rules"),
    *("/etc/netplan/90-NM-UUID.yaml", "/etc/haproxy/haproxy.cfg"),
    *("/etc/systemd/system.conf", "/usr/local/lib", "/var/lib/systemd/pstore"),
    # What a person is advised to write.
    *("/etc/default/grub.d/kho.cfg", "/etc/modprobe.d/nvidia-pools.conf"),
}
# These subjects place nothing: their texts are for a person. And the table itself.
ADVICE = ("causes", "cli", "run", "site", "placed.py")
PATH = re.compile(r"(?<![\w}/.-])/(?:etc|usr/local|usr/lib|lib|var/lib)(?:/[\w.@-]+)+")


def strangers(text: str) -> set[str]:
    """Return the paths of the system that a program names, without those that are known."""
    files = [Path(file.path) for file in FILES]
    units = [f"{placed.SYSTEMD}/{name}" for name in placed.unit_names()]
    known = {*map(str, files), *(str(file.parent) for file in files), placed.SYSTEMD, *units}
    return {path.rstrip(".") for path in PATH.findall(text)} - known - READ


def test_what_changes_a_host_names_no_other_path_of_the_system() -> None:
    """Shell commands and the programs on a Spark place things as well: none slips through."""
    library = [
        path
        for path in (PROJECT / "sparkwright").rglob("*.py")
        if not set(ADVICE) & {*path.relative_to(PROJECT).parts}
    ]
    assert len(library) > 150
    named = {
        str(path.relative_to(PROJECT)): found
        for path in (*library, *(PROJECT / "files").rglob("*"))
        if path.suffix in {".py", ".sh", ".service", ".socket", ".timer", ".cfg"}
        # What is done while an image is built is done in a container.
        and "images" not in path.parts
        and (found := strangers(path.read_text()))
    }
    assert named == {}
    assert strangers('Path("/etc/of-a-test/x.conf")') == {"/etc/of-a-test/x.conf"}
    assert strangers("cat > /etc/netplan/70-of-a-test.yaml") == {"/etc/netplan/70-of-a-test.yaml"}
