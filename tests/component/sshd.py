"""python sshd.py FOLDER PORT: an SSH server whose machine is a folder, and dies with this process.

It takes any key unless there is FOLDER/closed, runs each command by sh, and has /run/sparkwright in
its folder. The protocol is paramiko's, real on both sides.
"""

import logging
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paramiko
from paramiko.common import cMSG_CHANNEL_SUCCESS

from tests.clock import patience
from tests.component.servers import free_port, listens, until
from tests.programs import script

_RUN = "/run/sparkwright"


@dataclass
class Machine:
    """A machine that one gets to by SSH."""

    folder: Path
    port: int = field(default_factory=free_port)
    process: "subprocess.Popen[bytes] | None" = None

    def reached(self, **more: Any) -> dict[str, Any]:
        """Return the data of a host by which pyinfra gets there."""
        own = {"ssh_hostname": "127.0.0.1", "ssh_port": self.port, "ssh_user": "ann"}
        return own | {"ssh_key": str(self.folder.parent / "user-key")} | more

    def power_on(self) -> None:
        """Start it; the SSH server then takes connections."""
        (self.folder / "bin").mkdir(parents=True, exist_ok=True)
        script(self.folder / "bin/sudo", '#!/bin/sh\n[ "$1" = -n ] && shift\nexec "$@"\n')
        if not (self.folder / "key").exists():
            self.new_host_key()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.component.sshd", str(self.folder), str(self.port)],
            start_new_session=True,
        )
        until(lambda: listens(self.port))

    def reset(self) -> None:
        """Have it on, and nothing left of what befell it."""
        for name in ("asked", "closed"):
            (self.folder / name).unlink(missing_ok=True)
        if self.process is None:
            self.power_on()

    def power_off(self) -> None:
        """End all that runs there, at once and without a word."""
        if self.process:
            os.killpg(self.process.pid, 9)
            self.process.wait()
            self.process = None
        # It is in memory.
        shutil.rmtree(self.folder / "run", ignore_errors=True)

    def new_host_key(self) -> None:
        """Give it another host key, as a new system has."""
        paramiko.ECDSAKey.generate().write_private_key_file(str(self.folder / "key"))

    def refuse_keys(self) -> None:
        """Let nobody in any more."""
        (self.folder / "closed").touch()


@contextmanager
def machines(folder: Path, *names: str) -> Iterator[dict[str, Machine]]:
    """Have machines by name, and power them off in the end."""
    paramiko.ECDSAKey.generate().write_private_key_file(str(folder / "user-key"))
    found = {name: Machine(folder / name) for name in names}
    try:
        for machine in found.values():
            machine.power_on()
        yield found
    finally:
        for machine in found.values():
            machine.power_off()


class _Transport(paramiko.Transport):
    """Counts its replies to requests."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        self.replies = threading.Semaphore(0)

    def _send_user_message(self, data: paramiko.Message) -> None:
        super()._send_user_message(data)  # type: ignore[misc]
        if data.asbytes()[:1] == cMSG_CHANNEL_SUCCESS:
            self.replies.release()


class _Session(paramiko.ServerInterface):
    def __init__(self, folder: Path, transport: "_Transport") -> None:
        self._folder = folder
        self.transport = transport

    def get_allowed_auths(self, username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        closed = (self._folder / "closed").exists()
        return paramiko.AUTH_FAILED if closed else paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        text = command.decode().replace(_RUN, str(self._folder / "run"))
        _thread(self._execute, channel, text)
        return True

    def _execute(self, channel: paramiko.Channel, command: str) -> None:
        # Only now does the client know that its command was accepted.
        self.transport.replies.acquire()
        process = subprocess.Popen(
            ["sh", "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PATH": f"{self._folder}/bin:{os.environ['PATH']}", "MACHINE": str(self._folder)},
            bufsize=0,
        )
        assert process.stdout
        assert process.stderr
        _thread(_feed, channel, process)
        readers = [
            _thread(_copy, process.stdout.read, channel.sendall),
            _thread(_copy, process.stderr.read, channel.sendall_stderr),
        ]
        for reader in readers:
            reader.join()
        channel.send_exit_status(process.wait())
        channel.close()


def _thread(call: Callable[..., None], *arguments: object) -> threading.Thread:
    thread = threading.Thread(target=call, args=arguments, daemon=True)
    thread.start()
    return thread


def _copy(read: Callable[[int], bytes], write: Callable[[bytes], object]) -> None:
    while block := read(65536):
        write(block)


def _feed(channel: paramiko.Channel, process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin
    with process.stdin:
        _copy(channel.recv, process.stdin.write)


def main(folder: Path, port: int) -> None:
    """Serve until killed."""
    # paramiko tells of everybody who only looks whether it listens.
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    key = paramiko.ECDSAKey.from_private_key_file(str(folder / "key"))
    listener = socket.create_server(("127.0.0.1", port))
    listener.settimeout(patience(600))
    transports = []
    while True:
        connection, _ = listener.accept()
        transport = _Transport(connection)
        transport.add_server_key(key)
        transports.append(transport)
        _thread(_serve, transport, folder)


def _serve(transport: _Transport, folder: Path) -> None:
    try:
        transport.start_server(server=_Session(folder, transport))
    except (paramiko.SSHException, EOFError, OSError):
        # Somebody has only looked whether it listens.
        transport.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
