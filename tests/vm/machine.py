"""The virtual machine: QEMU, which emulates a processor, a watchdog, and a store for last words."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.clock import patience
from tests.lab import factory, rootfs
from tests.lab.shard import RESULTS
from tests.lab.state import LabError
from tests.vm import image

CONSOLE = RESULTS / "vm-console.log"

# Seconds; an emulated processor boots in one or two minutes, on a busy machine in more.
_BOOT = 900
_CMDLINE = "root=/dev/vda rw console=ttyS0 net.ifnames=0 mitigations=off"
# x86's flag "takes interrupts", and the instruction that jumps to itself.
_INTERRUPTS, _FOREVER = 0x200, "ebfe"


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
        """Run a shell script as root, over SSH; return what it prints.

        Raises:
            subprocess.SubprocessError: it failed, or there was no answer in `timeout` seconds.
        """
        options = (
            f"-F none -i {rootfs.keys()}/id_ed25519 -p {self.port} -o IdentitiesOnly=yes "
            f"-o BatchMode=yes -o LogLevel=ERROR -o UserKnownHostsFile={self.known_hosts}"
        )
        line = ["ssh", *options.split(), f"{factory.USER}@127.0.0.1", "sudo sh -e"]
        how = {"text": True, "capture_output": True, "check": True}
        return subprocess.run(line, input=script, timeout=patience(timeout), **how).stdout

    def answers(self, timeout: float) -> bool:
        try:
            return bool(self.run("echo yes", timeout=timeout))
        except subprocess.SubprocessError:
            return False

    def wait_booted(self) -> None:
        """Wait until SSH answers, and systemd has started everything."""
        deadline = time.monotonic() + patience(_BOOT)
        while not self.answers(30):
            if time.monotonic() > deadline:
                raise LabError(f"it does not answer; see {CONSOLE}")
            time.sleep(1)
        self.run("systemctl is-system-running --wait || true", timeout=_BOOT)

    def hang(self) -> None:
        """Have the kernel hang: its processor jumps to itself, and takes no interrupt."""
        self._ask("stop")
        with _connected(self._debugger) as channel:
            registers = bytes.fromhex(_debug(channel, "g"))
            at = int.from_bytes(registers[128:136], "little")
            flags = int.from_bytes(registers[136:140], "little") & ~_INTERRUPTS
            assert _debug(channel, f"P11={flags.to_bytes(4, 'little').hex()}") == "OK"
            assert _debug(channel, f"M{at:x},2:{_FOREVER}") == "OK"
        self._ask("cont")

    def events(self, since: float) -> list[tuple[str, float]]:
        """Return the ends of the machine, by QEMU's names, and how many seconds after a time."""
        self._ask("query-status")
        found = []
        for event in self._events:
            at = event["timestamp"]["seconds"] + event["timestamp"]["microseconds"] / 1e6
            if at >= since and event["event"] in ("RESET", "SHUTDOWN", "WATCHDOG"):
                found.append((event["event"], round(at - since, 1)))
        return found

    def wait_reset(self, since: float, timeout: float) -> list[tuple[str, float]]:
        """Wait for a reset after a time; return it, and what led to it."""
        deadline = time.monotonic() + patience(timeout)
        while "RESET" not in dict(found := self.events(since)):
            if time.monotonic() > deadline:
                raise LabError(f"no reset in {timeout} s, but {found}; see {CONSOLE}")
            time.sleep(0.5)
        return found

    def _ask(self, command: str) -> None:
        self._monitor.write(json.dumps({"execute": command}))
        self._monitor.flush()
        while "event" in (line := json.loads(self._monitor.readline())):
            self._events.append(line)
        assert "return" in line, line


@contextmanager
def switched_on() -> Iterator[Machine]:
    """Give a machine that has booted; what it writes is gone with it."""
    built = image.ensure()
    RESULTS.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="vm-") as name:
        folder, port = Path(name), _free_port()
        options = f"""
            -accel tcg -cpu max -m 2048 -smp 1 -nodefaults -display none -serial file:{CONSOLE}
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
        qemu = "setpriv --pdeathsig KILL nice -n 19 qemu-system-x86_64"
        command = [*qemu.split(), *options.split(), "-append", _CMDLINE]
        environment = os.environ | {"TMPDIR": "/var/tmp"}
        process = subprocess.Popen(command, env=environment, start_new_session=True)
        try:
            machine = Machine(folder, port)
            machine.wait_booted()
            yield machine
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _connected(path: Path) -> socket.socket:
    """Connect to a socket of QEMU's, which makes it as it starts."""
    deadline = time.monotonic() + patience(30)
    channel = socket.socket(socket.AF_UNIX)
    channel.settimeout(patience(30))
    while channel.connect_ex(str(path)):
        if time.monotonic() > deadline:
            raise LabError(f"QEMU has not made {path}")
        time.sleep(0.05)
    return channel


def _debug(channel: socket.socket, request: str) -> str:
    """Say a packet of GDB's remote protocol; return its answer."""
    channel.sendall(f"${request}#{sum(request.encode()) % 256:02x}".encode())
    packet = b""
    while packet[-3:-2] != b"#":
        packet += channel.recv(1)
    channel.sendall(b"+")
    return packet[:-3].decode().lstrip("+").removeprefix("$")
