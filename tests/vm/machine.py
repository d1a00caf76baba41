"""The virtual machine: QEMU, which emulates a processor, a watchdog, and a store for last words."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.clock import patience
from tests.lab import factory, rootfs
from tests.lab.shard import RESULTS
from tests.lab.state import LabError, wait_for
from tests.vm import image

CONSOLE = RESULTS / "vm-console.log"

# Seconds; an emulated processor boots in one or two minutes, on a busy machine in more.
_BOOT = 900
_CMDLINE = "root=/dev/vda rw console=ttyS0 net.ifnames=0 mitigations=off"
_CMDLINE += f" systemd.default_timeout_start_sec={_BOOT}"


class Machine:
    """A machine that is on. It outlives its own resets, and ends with the tests."""

    def __init__(self, folder: Path, port: int) -> None:
        self.port = port
        self.known_hosts = folder / "known_hosts"
        key = (rootfs.keys() / f"{image.NAME}.pub").read_text()
        self.known_hosts.write_text(f"[127.0.0.1]:{port} {key}")
        self._debugger = folder / "debugger"
        self._events: list[dict[str, Any]] = []
        self._monitor = _connected(folder / "monitor").makefile("rw")
        self._monitor.readline()  # a greeting
        self._ask("qmp_capabilities")

    def run(self, script: str, *, timeout: float = 180) -> str:
        """Run a shell script as root, over SSH, which must succeed; return what it prints."""
        options = (
            f"-F none -i {rootfs.keys()}/id_ed25519 -p {self.port} -o ConnectTimeout=30 "
            f"-o BatchMode=yes -o LogLevel=ERROR -o UserKnownHostsFile={self.known_hosts}"
        )
        line = ["ssh", *options.split(), f"{factory.USER}@127.0.0.1", "sudo sh -e"]
        how = {"text": True, "capture_output": True, "check": True}
        return subprocess.run(line, input=script, timeout=patience(timeout), **how).stdout

    def wait_booted(self) -> None:
        """Wait until SSH answers, and systemd has started everything."""
        deadline = time.monotonic() + patience(_BOOT)
        while time.monotonic() < deadline:
            with suppress(subprocess.CalledProcessError):
                self.run("systemctl is-system-running --wait || true", timeout=_BOOT)
                return
            time.sleep(1)
        raise LabError(f"it does not answer; see {CONSOLE}")

    def hang(self) -> None:
        """Have the kernel hang: its processor jumps to itself, and takes no interrupt."""
        self._ask("stop")
        with _connected(self._debugger) as channel:
            registers = bytearray.fromhex(_debug(channel, "g"))
            at = int.from_bytes(registers[128:136], "little")
            # x86's flag "takes interrupts", and the instruction that jumps to itself.
            registers[137] &= ~0x02
            assert _debug(channel, f"G{registers.hex()}") == "OK"
            assert _debug(channel, f"M{at:x},2:ebfe") == "OK"
        self._ask("cont")

    def ends(self, since: float) -> dict[str, float]:
        """Return how it has ended after a time, by QEMU's names, each first one's seconds."""
        self._ask("query-status")
        times = [(each["event"], each["timestamp"]) for each in reversed(self._events)]
        after = [(name, at["seconds"] + at["microseconds"] / 1e6 - since) for name, at in times]
        return {name: s for name, s in after if s > 0 and name in ("WATCHDOG", "RESET")}

    def wait_reset(self, since: float, timeout: float) -> dict[str, float]:
        """Wait for a reset after a time; return it, and what led to it."""
        wait_for(lambda: "RESET" in self.ends(since), timeout, "a reset", interval=0.5)
        return self.ends(since)

    def _ask(self, command: str) -> None:
        self._monitor.write(json.dumps({"execute": command}))
        self._monitor.flush()
        while "event" in (line := json.loads(self._monitor.readline())):
            self._events.append(line)
        assert "return" in line


@contextmanager
def switched_on() -> Iterator[Machine]:
    """Give a machine that has booted; what it writes is gone with it."""
    built = image.ensure()
    RESULTS.mkdir(exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with TemporaryDirectory(prefix="vm-") as name:
        folder = Path(name)
        # Without cmpxchg16b: a kernel panicked at its start, as QEMU 7.2 had left half a pointer in
        # the flags after one.
        options = f"""
            -accel tcg -cpu max,-cx16 -m 2048 -smp 1 -nodefaults -display none
            -serial file:{CONSOLE}
            -kernel {built / image.KERNEL} -initrd {built / image.INITRD}
            -drive file={built / image.DISK},if=virtio,format=raw,snapshot=on
            -netdev user,id=lan,hostfwd=tcp:127.0.0.1:{port}-:22 -device virtio-net-pci,netdev=lan
            -device i6300esb -action watchdog=reset
            -object memory-backend-file,id=store,mem-path={folder}/store,size=64K,share=on
            -device acpi-erst,memdev=store
            -qmp unix:{folder}/monitor,server=on,wait=off
            -chardev socket,id=debugger,path={folder}/debugger,server=on,wait=off
            -gdb chardev:debugger"""
        # It ends with the tests, however they end.
        qemu = "env TMPDIR=/var/tmp setpriv --pdeathsig KILL nice -n 19 qemu-system-x86_64"
        command = [*qemu.split(), *options.split(), "-append", _CMDLINE]
        process = subprocess.Popen(command, start_new_session=True)
        try:
            machine = Machine(folder, port)
            machine.wait_booted()
            yield machine
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _connected(path: Path) -> socket.socket:
    """Connect to a socket of QEMU's, which makes it as it starts."""
    channel = socket.socket(socket.AF_UNIX)
    channel.settimeout(patience(30))
    wait_for(lambda: channel.connect_ex(str(path)) == 0, 30, f"QEMU to make {path}")
    return channel


def _debug(channel: socket.socket, request: str) -> str:
    """Say a packet of GDB's remote protocol; return its answer."""
    channel.sendall(f"${request}#{sum(request.encode()) % 256:02x}".encode())
    packet = b""
    while packet[-3:-2] != b"#":
        read = channel.recv(1)
        assert read
        packet += read
    channel.sendall(b"+")
    return packet[:-3].decode().lstrip("+").removeprefix("$")
