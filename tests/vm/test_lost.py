"""What no container can show: a Spark that hangs or panics is back by itself, and says why.

In no tier, as an emulated processor takes half an hour: make vm. What took how long is printed.
"""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from secrets import token_hex

import pytest

from sparkwright.plan.release.programs import state_program
from sparkwright.run.state import RUN
from tests.driver.product import PROJECT, command, env, here
from tests.lab import factory, rootfs
from tests.vm import image
from tests.vm.machine import Machine, switched_on

# Seconds: `watchdog_seconds` of the settings, kernel.panic, how much later or sooner an end may
# come, as the emulation has no processor of its own, and how long it works hard.
_WATCHDOG, _PANIC, _LATE, _LOAD = 60, 10, 15, 240
_FLEET = PROJECT / "inventory/vm.yaml"
_DECLARED = """\
sparks: {{{name}: {{ssh_hostname: 127.0.0.1, ssh_port: {machine.port}, ssh_user: {user},
  ssh_key: {key}, ssh_known_hosts_file: {machine.known_hosts}, hardware: lab}}}}
replicas: {{vm: {{recipe: lab-tiny, sparks: [{name}], trusts: [tool-parser-plugin]}}}}
"""
# What holds memory up to 90 %; then loops that use the processor, and one that writes to the disk.
_HEAVY = """\
python3 -c '
import pathlib, signal
kib = {row.split()[0]: int(row.split()[1]) for row in open("/proc/meminfo")}
held = bytearray((kib["MemAvailable:"] - kib["MemTotal:"] // 10) * 1024)
held[::4096] = b"1" * len(held[::4096])
pathlib.Path("/run/held").touch()
signal.pause()' &
until test -e /run/held; do sleep 1; done
for _ in 1 2 3 4 5 6 7 8; do sh -c 'while :; do :; done' & done
sh -c 'while dd if=/dev/zero of=/var/load bs=1M count=64 conv=fsync; do :; done' &
"""


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    begun = time.time()
    with switched_on() as machine:
        print(f"\nfrom power to a whole system {time.time() - begun:.0f} s")
        _set_up(machine)
        yield machine


def _hang_systemd(machine: Machine) -> None:
    group = "/sys/fs/cgroup/init.scope"
    machine.run(f"echo 1 >{group}/cgroup.freeze; sleep 1; grep 'frozen 1' {group}/cgroup.events")


def _hang_kernel(machine: Machine) -> None:
    machine.hang()
    with pytest.raises(subprocess.CalledProcessError):
        machine.run("true")


@pytest.mark.parametrize("hang", [_hang_systemd, _hang_kernel])
def test_what_hangs_is_reset_by_the_watchdog(
    machine: Machine, hang: Callable[[Machine], None]
) -> None:
    with _comes_back(machine) as since:
        hang(machine)
        ends = machine.wait_reset(since, 2 * _WATCHDOG)
        print(f"\n{hang.__name__}: {ends}")
        assert {*ends} == {"WATCHDOG", "RESET"}
        # systemd asks for another minute each half minute.
        assert _WATCHDOG / 2 - _LATE < ends["WATCHDOG"] < _WATCHDOG + _LATE


def test_a_panic_reboots_and_leaves_its_last_words(machine: Machine) -> None:
    with _comes_back(machine) as since:
        machine.run("(sleep 1; echo c >/proc/sysrq-trigger) >/dev/null 2>&1 &")
        ends = machine.wait_reset(since, 2 * _WATCHDOG)
        print(f"\npanic: {ends}")
        assert {*ends} == {"RESET"}
        assert _PANIC < ends["RESET"] < _PANIC + _LATE
    program, request = state_program(frozenset(["checkup.pstore"])), '[["checkup.pstore", {}, 30]]'
    found = machine.run(f"{RUN} <<'END'\n{program}\n{request}\nEND\n")
    assert "Kernel panic - not syncing: sysrq triggered crash" in found


def test_heavy_work_is_no_hang(machine: Machine) -> None:
    boot = _boot(machine)
    machine.run(f"{{ {_HEAVY} }} >/dev/null 2>&1 </dev/null")
    since = time.time()
    slowest, least, load = 0.0, 1.0, 0.0
    while time.time() < since + _LOAD:
        asked = time.time()
        average, *rows = machine.run("cat /proc/loadavg; head -n 3 /proc/meminfo").splitlines()
        slowest = max(slowest, time.time() - asked)
        total, _, available = (int(row.split()[1]) for row in rows)
        least, load = min(least, available / total), max(load, float(average.split()[0]))
    print(f"\nload {load}, {least:.0%} of memory available; slowest answer of SSH {slowest:.1f} s")
    assert load > 5
    assert least < 0.15
    assert machine.ends(since) == {}
    assert _boot(machine) == boot


@contextmanager
def _comes_back(machine: Machine) -> Iterator[float]:
    """Give the time before a fault; then the machine has booted once more, and lost nothing."""
    (_, boots), written, file = _boot(machine), token_hex(), "/var/lib/written"
    machine.run(f"echo {written} >{file}; sync {file}")
    since = time.time()
    yield since
    assert _boot(machine)[1] == boots + 1
    print(f"\nfrom the fault to a whole system {time.time() - since:.0f} s")
    assert machine.run(f"cat {file}") == f"{written}\n"


def _boot(machine: Machine) -> tuple[str, int]:
    """Return the id of its boot, once it has booted, and how many boots its journal has."""
    machine.wait_booted()
    script = "tr -d - </proc/sys/kernel/random/boot_id; journalctl --list-boots --no-pager --quiet"
    boot, *listed = machine.run(script).splitlines()
    assert boot in listed[-1]
    return boot, len(listed)


def _set_up(machine: Machine) -> None:
    """Have the product's own step set up the host; it changes nothing when it is run again."""
    words = {"name": image.NAME, "user": factory.USER, "key": rootfs.keys() / "id_ed25519"}
    _FLEET.write_text(_DECLARED.format(machine=machine, **words))
    step = [*command("inventory.py"), "sparkwright.machine.host.deploy.apply", "-y", "--json"]
    try:
        done = [here(*step, env=env(SPARKWRIGHT_INVENTORY=_FLEET.stem)) for _ in range(2)]
    finally:
        _FLEET.unlink()
    assert [run.returncode for run in done] == [0, 0], done
    assert not any(each["success"] for each in json.loads(done[1].stdout)["results"]["operations"])
