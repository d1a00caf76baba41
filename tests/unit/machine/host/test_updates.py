"""What would come unasked to a Spark's system, as apt, the disk and unattended-upgrades say it."""

import json
from collections.abc import Sequence
from subprocess import CompletedProcess
from typing import Any

import pytest
from pyinfra.api.operation import add_op
from pyinfra.api.state import StateStage

from host.state import updates
from sparkwright.common.errors import Difference
from sparkwright.machine.host.operations.system import system_packages
from sparkwright.machine.host.updates import Standing, System, turn
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
install installed docker-ce
hold installed nvidia-container-toolkit
install installed linux-image-nvidia-hwe-24.04
install installed linux-nvidia-hwe-24.04
install installed linux-libc-dev
install config-files linux-image-6.14.0-1015-nvidia
install installed nvidia-driver-580-open
install installed nvidia-spark-grub-kho
install installed vim
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
            "dockerd": "Docker version 28.3.3, build 980b856\n",
        }
        self.status: dict[str, int] = {}
        self.files: dict[str, str] = {}
        self.boot = ["config-7.0.0-1019-nvidia", "vmlinuz", "vmlinuz-6.17.0-1032-nvidia"]

    def run(self, *words: str, **_: Any) -> CompletedProcess[str]:
        said, status = self.said[words[0]], self.status.get(words[0], 0)
        return CompletedProcess(words, status, "" if status else said, said)

    def read(self, apt: bool = True) -> System:
        return System.model_validate_json(json.dumps(updates.read("/r", apt)))


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Spark:
    made = Spark()
    monkeypatch.setattr(updates, "run", made.run)
    monkeypatch.setattr(updates, "lines", lambda *words: made.run(*words).stdout.splitlines())
    monkeypatch.setattr(updates, "names", lambda path: made.boot if path == "/boot" else [])
    monkeypatch.setattr(updates, "text", made.files.get)
    monkeypatch.setattr(updates, "word", lambda _: "580.173.02")
    monkeypatch.setattr(updates.docker, "get", lambda _: {"Version": "28.3.3"})
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
    assert [*found.surprises()] == []


def test_what_unattended_upgrades_would_take_is_named(spark: Spark) -> None:
    assert [*spark.read().surprises()] == [
        Difference(
            f"kernel ({META}, and 1 more)",
            "6.17.0-1032.32",
            "7.0.0-1019.19 would come by itself. Known: The kernel reserves some 9 GiB for kexec "
            "handover (KHO), which network card and GPU cannot use [kernel-kho]",
        )
    ]
    spark.said["dpkg-query"] = INSTALLED.replace("install installed linux", "hold installed linux")
    assert [*spark.read().surprises()] == []


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
    assert updates.alone(package, archives, options.splitlines()) is told


def named(spark: Spark) -> list[str]:
    spark.said["apt"] = ""
    return [str(each) for each in spark.read().surprises()]


def test_a_kernel_that_boots_next_is_named_unless_another_is_chosen(spark: Spark) -> None:
    assert named(spark) == []
    spark.boot += ["vmlinuz-7.0.0-1019-nvidia", "vmlinuz-6.9.0-1-nvidia"]
    (line,) = named(spark)
    assert line.startswith(
        "kernel: expected 6.17.0-1032-nvidia, as it runs, found 7.0.0-1019-nvidia after the next "
        "boot. Known: The kernel reserves"
    )
    spark.files["/etc/default/grub"] = "GRUB_DEFAULT=0\nGRUB_TIMEOUT=0\n"
    assert len(named(spark)) == 1
    for chosen in ("saved", '"Advanced options for Ubuntu>Ubuntu, with Linux 6.17.0-1032-nvidia"'):
        spark.files["/etc/default/grub"] = f"GRUB_DEFAULT={chosen}\n"
        assert named(spark) == []


def test_a_kernel_without_a_driver_is_named(spark: Spark) -> None:
    """As where the image came, and linux-modules-nvidia was kept back."""
    spark.said["modinfo"], spark.status["modinfo"] = "modinfo: ERROR: Module nvidia not found.", 1
    (line,) = named(spark)
    assert line == (
        "driver: expected 580.173.02, as it runs, found none for that kernel after the next boot"
    )
    # Without modinfo nothing is known.
    spark.status["modinfo"] = 127
    assert named(spark) == []


def test_a_driver_and_docker_on_the_disk_that_do_not_run_yet(spark: Spark) -> None:
    spark.said |= {"modinfo": "610.57.04\n", "dockerd": "Docker version 29.0.1, build a\n"}
    driver, docker = named(spark)
    assert "found 610.57.04 after the next boot. Known: The driver, from 590 on, keeps" in driver
    # That one is of kernels with large pages.
    assert "[driver-610-64k]" not in driver
    assert docker == "Docker: expected 28.3.3, as it runs, found 29.0.1 after the next boot"


def test_apt_that_cannot_say_is_no_silence(spark: Spark) -> None:
    spark.status["apt"] = 100
    spark.said["apt"] = "W: x\nE: The list of sources could not be read.\n"
    assert [str(each) for each in spark.read().surprises()] == [
        "apt: expected to say what would come by itself, found E: The list of sources could not be "
        "read."
    ]


def test_large_pages_are_known_by_the_packages_name() -> None:
    row = ["kernel", "linux-image-nvidia-64k-hwe-24.04", "6.17.0-1032.32", "6.17.0-1040.40", True]
    now = VERSIONS | {"driver": "610.57.04"}
    told = system(newer=[row], now=now, then=now)
    (found,) = System.model_validate_json(json.dumps(told)).surprises()
    assert found.found.endswith("pages of 64 KiB [driver-610-64k]")


PACKAGES = {META: False, "docker-ce": True, "runc": True}


@pytest.mark.parametrize(
    ("hold", "ours", "command"),
    [
        (True, (), f"hold {META}"),
        (False, ("runc",), "unhold runc"),
        # A record that says nothing any more is ended.
        (False, ("gone",), "unhold "),
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
    begun = [f"package={names or repr('')}", f"doing={doing}", "state=/r/state"]
    assert scripts == ([begun] if command else [])


def spark_of(replica: str, old: bool = False, due: bool = False, serves: bool = True) -> Standing:
    return Standing(replica, old, due, serves)


def test_one_replica_is_upgraded_first_and_the_next_once_it_serves() -> None:
    assert turn([]) == ("", "")
    assert turn([spark_of("a"), spark_of("b", serves=False)]) == ("", "")
    assert turn([spark_of("a", old=True), spark_of("b", old=True)]) == ("a", "")
    second = [spark_of("b", old=True), spark_of("c", old=True)]
    replica, first = turn([spark_of("a", due=True), *second])
    assert (replica, first) == ("", "a has new packages, and runs the old ones: reboot it first.")
    replica, first = turn([spark_of("a", serves=False), *second])
    assert (replica, "does not serve" in first) == ("", True)
    assert turn([spark_of("a"), *second]) == ("b", "")
    # Of a pair, both: one that was interrupted is finished first.
    pair = [spark_of("a", due=True), spark_of("a", old=True)]
    assert turn([*pair, *second]) == ("a", "")
    # One that does not serve may be what is to be mended.
    assert turn([spark_of("a", old=True, serves=False)]) == ("a", "")


def test_a_plan_names_what_comes_and_what_it_would_hold(
    caplog: pytest.LogCaptureFixture,
) -> None:
    asked: list[bool] = []

    def found(apt: bool, **_: Any) -> dict[str, Any]:
        asked.append(apt)
        row = ["kernel", META, "6.17.0-1032.32", "6.17.0-1033.33", True]
        return system(packages={META: False}, newer=[row] if apt else [])

    spark = fake_host(state={"updates": found}, root="/r", hold_system=True)
    with spark.current() as host:
        host.state.set_stage(StateStage.Prepare)
        add_op(host.state, system_packages)
    assert f"kernel ({META}): expected 6.17.0-1032.32, found 6.17.0-1033.33 would" in caplog.text
    assert f"to be held: {META}" in caplog.text
    assert spark.commands == []
    # A run without a plan does not wait for apt.
    spark.run(system_packages)
    assert asked == [True, False]
