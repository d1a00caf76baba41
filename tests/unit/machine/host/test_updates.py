"""What would come unasked to a Spark's system, as apt, the disk and unattended-upgrades say it."""

import json
import shlex
from collections.abc import Sequence
from subprocess import CompletedProcess
from typing import Any

import pytest
from pyinfra.api.operation import add_op
from pyinfra.api.state import StateStage

from host.state import updates
from sparkwright.machine.host.operations.system import System, system_packages
from tests.makers.updates import VERSIONS, system
from tests.unit.driven import fake_host

# `apt list --upgradable` of apt 2.7 on Ubuntu 24.04, LC_ALL=C.
LISTED = """\
Listing...
docker-ce/noble 5:29.0.1-1~ubuntu.24.04~noble arm64 [upgradable from: 5:28.3.3-1~ubuntu.24.04~noble]
linux-image-nvidia-hwe-24.04/noble-updates,noble-security 7.0.0-1019.19 arm64 \
[upgradable from: 6.17.0-1032.32]
linux-libc-dev/noble-updates,noble-security 6.8.0-90.91 arm64 [upgradable from: 6.8.0-88.89]
linux-nvidia-hwe-24.04/noble-updates,noble-security 7.0.0-1019.19 arm64 \
[upgradable from: 6.17.0-1032.32]
nvidia-container-toolkit/unknown 1.19.0-1 arm64 [upgradable from: 1.18.1-1]
nvidia-driver-580-open/noble-updates 580.178.04-0ubuntu0.24.04.1 arm64 \
[upgradable from: 580.173.02-0ubuntu0.24.04.1]
nvidia-spark-grub-kho/noble-updates,noble-security 2 arm64 [upgradable from: 1]
vim/noble-updates,noble-security 2:9.1.1 arm64 [upgradable from: 2:9.1.0]
"""
OPTIONS = """\
APT::Periodic::Unattended-Upgrade 1
Unattended-Upgrade
Unattended-Upgrade::Allowed-Origins
Unattended-Upgrade::Allowed-Origins:: ${distro_id}:${distro_codename}
Unattended-Upgrade::Allowed-Origins:: ${distro_id}:${distro_codename}-security
Unattended-Upgrade::Allowed-Origins:: UbuntuESMApps:${distro_codename}-apps-security
Unattended-Upgrade::DevRelease auto
"""
INSTALLED = """\
ii  docker-ce
hi  nvidia-container-toolkit
ii  linux-image-nvidia-hwe-24.04
ii  linux-nvidia-hwe-24.04
ii  linux-libc-dev
rc  linux-image-6.14.0-1015-nvidia
ii  nvidia-driver-580-open
ii  nvidia-spark-grub-kho
ii  vim
"""
# As grub-mkconfig writes it.
MENU = """\
if [ "${{next_entry}}" ] ; then
   set default="${{next_entry}}"
else
   set default="{default}"
fi
menuentry 'Ubuntu' --class ubuntu {{
	linux	/vmlinuz-{kernel} root=UUID=1 ro
}}
submenu 'Advanced options for Ubuntu' {{
	menuentry 'Ubuntu, with Linux 6.9.0-1-nvidia' {{
		linux	/vmlinuz-6.9.0-1-nvidia root=UUID=1 ro
	}}
}}
"""
META, IMAGE = "linux-nvidia-hwe-24.04", "linux-image-nvidia-hwe-24.04"


class Spark:
    """A Spark by what its programs print, and its files."""

    def __init__(self) -> None:
        self.said = {
            "dpkg-query": INSTALLED,
            "apt": LISTED,
            "apt-config": OPTIONS,
            "modinfo": "580.173.02\n",
        }
        self.status: dict[str, int] = {}
        self.files: dict[str, str] = {}

    def run(self, *words: str, **_: Any) -> CompletedProcess[str]:
        said, status = self.said[words[0]], self.status.get(words[0], 0)
        return CompletedProcess(words, status, "" if status else said, said)

    def read(self, apt: bool = True) -> System:
        return System.model_validate_json(json.dumps(updates.read("/r", apt=apt)))


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Spark:
    made = Spark()
    monkeypatch.setattr(updates, "run", made.run)
    monkeypatch.setattr(updates, "lines", lambda *words: made.run(*words).stdout.splitlines())
    monkeypatch.setattr(updates, "output", lambda *words: made.run(*words).stdout)
    monkeypatch.setattr(updates, "text", made.files.get)
    monkeypatch.setattr(updates, "word", lambda _: "580.173.02")
    release = type("Name", (), {"release": "6.17.0-1032-nvidia"})
    monkeypatch.setattr(updates.os, "uname", lambda: release)
    return made


def test_the_systems_packages_are_told_from_others(spark: Spark) -> None:
    spark.files["/r/state/held"] = "nvidia-container-toolkit\n"
    found = spark.read(apt=False)
    assert found.packages == {
        "docker-ce": False,
        "nvidia-container-toolkit": True,
        IMAGE: False,
        META: False,
        "nvidia-driver-580-open": False,
    }
    assert found.ours == ("nvidia-container-toolkit",)
    # Without apt nothing is said of what comes.
    assert [*found.differences()] == []


def test_without_marks_and_setting_no_package_is_read(spark: Spark) -> None:
    spark.files.pop("/r/state/held", None)
    assert updates.read("/r", hold=False)["packages"] == {}
    spark.files["/r/state/held"] = META
    assert updates.read("/r", hold=False)["packages"]


def named(spark: Spark, held: bool = False) -> list[str]:
    return [str(each) for each in spark.read().differences(held=held)]


KHO = (
    "The kernel reserves some 9 GiB for kexec handover (KHO), which network card and GPU cannot use"
)


def test_what_unattended_upgrades_would_take_is_named(spark: Spark) -> None:
    line = (
        f"kernel ({META}, and 1 more): expected 6.17.0-1032.32, found 7.0.0-1019.19 (by itself). "
        f"Known: {KHO} [kernel-kho]"
    )
    assert named(spark) == [line]
    assert named(spark, held=True) == []
    spark.said["dpkg-query"] = INSTALLED.replace("ii  linux", "hi  linux")
    assert named(spark) == []
    # Those that runs hold come by `upgrade`.
    spark.files["/r/state/held"] = f"{META}\n{IMAGE}\nlinux-libc-dev\n"
    assert named(spark, held=True) == [line.replace("by itself", "held")]
    assert named(spark) == []


@pytest.mark.parametrize(
    ("package", "archives", "options", "told"),
    [
        (META, "noble-updates,noble-security", OPTIONS, True),
        (META, "noble-updates", OPTIONS, False),
        ("docker-ce", "noble", OPTIONS, False),
        (META, "noble-security", OPTIONS.replace("Upgrade 1", "Upgrade 0"), False),
        (META, "noble-security", "", False),
        (META, "noble-security", OPTIONS.replace("${distro_codename}", "noble"), True),
        (META, "noble-security", f"{OPTIONS}Unattended-Upgrade::Package-Blacklist:: linux-", False),
        (META, "x", f"{OPTIONS}Unattended-Upgrade::Origins-Pattern:: origin=Ubuntu", True),
    ],
)
def test_unattended_upgrades_by_its_options(
    package: str, archives: str, options: str, told: bool
) -> None:
    assert updates.may_take(package, archives, options) is told


def test_a_kernel_that_boots_next_is_named_unless_another_is_chosen(spark: Spark) -> None:
    spark.said["apt"] = ""
    for default, kernel, there in (
        ("0", "6.17.0-1032-nvidia", False),
        ("0", "7.0.0-1019-nvidia", True),
        ("${saved_entry}", "7.0.0-1019-nvidia", False),
        ("Advanced options for Ubuntu>Ubuntu, with Linux 6.9", "7.0.0-1019-nvidia", False),
    ):
        spark.files["/boot/grub/grub.cfg"] = MENU.format(default=default, kernel=kernel)
        line = (
            "kernel: expected 6.17.0-1032-nvidia, found 7.0.0-1019-nvidia (with the next boot). "
            f"Known: {KHO} [kernel-kho]"
        )
        assert named(spark) == ([line] if there else [])


def test_a_kernel_without_a_driver_is_named(spark: Spark) -> None:
    """As where the image came, and linux-modules-nvidia was kept back."""
    spark.said["apt"] = ""
    spark.files["/boot/grub/grub.cfg"] = MENU.format(default="0", kernel="6.17.0-1040-nvidia")
    spark.said["modinfo"], spark.status["modinfo"] = "modinfo: ERROR: Module nvidia not found.", 1
    assert named(spark)[1:] == [
        "driver: expected 580.173.02, found none for kernel 6.17.0-1040-nvidia (with the next boot)"
    ]
    # Without modinfo nothing is known.
    spark.status["modinfo"] = 127
    assert named(spark)[1:] == []


def test_a_driver_on_the_disk_that_does_not_run_yet(spark: Spark) -> None:
    spark.said |= {"apt": "", "modinfo": "610.57.04\n"}
    (driver,) = named(spark)
    assert "found 610.57.04 (with the next boot). Known: The driver, from 590 on, keeps" in driver
    # That one is of kernels with large pages.
    assert "[driver-610-64k]" not in driver


def test_apt_that_cannot_say_is_no_silence(spark: Spark) -> None:
    spark.status["apt"] = 100
    spark.said["apt"] = "W: x\nE: The list of sources could not be read.\n"
    assert named(spark) == [
        "apt: expected to say what comes, found E: The list of sources could not be read. (failed)"
    ]


def test_large_pages_are_known_by_the_packages_name() -> None:
    row = ["kernel", "kernel (linux-image-nvidia-64k-hwe-24.04)", "6.17", "6.17.0-1040.40", "x"]
    told = system(coming=[row], now=VERSIONS | {"driver": "610.57.04"})
    (found,) = System.model_validate_json(json.dumps(told)).differences()
    assert found.found.endswith("pages of 64 KiB [driver-610-64k]")


PACKAGES = {META: False, "docker-ce": True, "runc": True}


@pytest.mark.parametrize(
    ("hold", "ours", "command"),
    [
        (True, (), f"hold {META}"),
        (False, ("runc", "gone"), "unhold runc gone"),
        (False, (), None),
    ],
)
def test_marks_that_differ(hold: bool, ours: Sequence[str], command: str | None) -> None:
    found = system(packages=PACKAGES, ours=[*ours])
    spark = fake_host(state={"updates": found}, root="/r", hold_system=hold)
    assert spark.predicts_change(system_packages) is bool(command)
    assert spark.run(system_packages).did_change() is bool(command)
    scripts = [each.splitlines()[:3] for each in spark.scripts()]
    doing, _, names = (command or "").partition(" ")
    begun = [f"package={shlex.quote(names)}", f"doing={doing}", "state=/r/state"]
    assert scripts == ([begun] if command else [])


def test_a_plan_names_what_comes_and_what_it_would_hold(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked: list[bool] = []

    def found(apt: bool, **_: Any) -> dict[str, Any]:
        asked.append(apt)
        row = ["kernel", f"kernel ({META})", "6.17.0-1032.32", "6.17.0-1033.33", "by itself"]
        return system(packages={META: False}, coming=[row] if apt else [])

    spark = fake_host(state={"updates": found}, root="/r", hold_system=True)
    with spark.current() as host:
        host.state.set_stage(StateStage.Prepare)
        add_op(host.state, system_packages)
    assert (
        f"kernel ({META}): expected 6.17.0-1032.32, found 6.17.0-1033.33 (by itself)" in caplog.text
    )
    assert f"to be held: {META}" in caplog.text
    assert spark.commands == []
    # A run without a plan does not wait for apt.
    spark.run(system_packages)
    assert asked == [True, False]
