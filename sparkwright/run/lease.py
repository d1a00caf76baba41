"""One run at a time changes a Spark, and what it changes stands in a record there."""

import getpass
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from paramiko import SSHClient, SSHException
from pyinfra import state
from pyinfra.api import Host, State, StringCommand
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.state import BaseStateCallback
from pyinfra.connectors.util import make_unix_command_for_host

from sparkwright.common.operations import spark_name, uses_sudo
from sparkwright.run.host_data import settings
from sparkwright.run.lease_state import BEAT, SILENCE, hold_script, holder
from sparkwright.run.lost import cause

# Seconds until a Spark has said whether it gives the lock, or that it has it back.
ANSWER = 60
# Bytes of what it says then, which is a name of somebody's.
_WORDS = 4096


def hold_lease() -> None:
    """Have this run be the only one that changes its Sparks, from its first operation to its last.

    Planning takes nothing: a dry run may look while another run works.

    As the first operation begins, the run ends where another one is at work on one of the Sparks,
    or a Spark does not say. Nothing was changed then.
    """
    if not any(isinstance(handler, LeaseKeeper) for handler in state.callback_handlers):
        state.add_callback_handler(LeaseKeeper())


def lost_lease(run: State) -> str:
    """Return why a run may change nothing any more; "" as long as it may."""
    keepers = [each for each in run.callback_handlers if isinstance(each, LeaseKeeper)]
    return keepers[0].lost if keepers else ""


class LeaseKeeper(BaseStateCallback):
    """Holds a lock on each Spark, by a channel of its own that is open as long as the run is.

    However the run ends, its channels end, and the locks with them. A Spark that is lost takes only
    its own along.
    """

    def __init__(self) -> None:
        self._begun = self._together = False
        self._locks: dict[Host, _Lock] = {}

    @property
    def lost(self) -> str:
        """The reason why the run may change nothing any more; "" as long as it may."""
        return next((trouble for lock in self._locks.values() if (trouble := lock.trouble)), "")

    def operation_start(self, state: State, op_hash: str) -> None:  # type: ignore[override]
        """Take the locks before the first operation; stop when one was lost since."""
        self._together = True
        self._keep(state)

    def operation_host_start(self, state: State, host: Host, op_hash: str) -> None:  # type: ignore[override]
        """Do so with --serial, too: there pyinfra begins no operation, but each host's part."""
        if self._together:
            return
        try:
            self._keep(state)
        except PyinfraError as error:
            # Pyinfra would take it for this host's failure, and say nothing of it.
            raise SystemExit(f"\n{error}") from None

    def _keep(self, state: State) -> None:
        if self.lost:
            raise PyinfraError(self.lost)
        if self._begun:
            return
        self._begun = True
        owner = _this_run()
        # In one order in all runs: of two that begin together, one gets them all.
        for host in sorted(state.active_hosts, key=lambda each: each.name):
            self._locks[host] = _Lock(host, owner)

    def operation_end(self, state: State, op_hash: str) -> None:  # type: ignore[override]
        """Put what the operation has changed into the Sparks' records."""
        for lock in self._locks.values():
            lock.record(op_hash)

    def host_disconnect(self, state: State, host: Host) -> None:  # type: ignore[override]
        """Give a lock back at the end of the run; one that is killed does so by its end."""
        if lock := self._locks.pop(host, None):
            # With --serial, or where the run fails, operations have no end.
            for op_hash in state.get_op_order():
                lock.record(op_hash)
            lock.release()


class _Lock:
    """The lock of one Spark, held by a command there that reads what this run writes.

    Args:
        host: the Spark.
        owner: who wants it, for people.

    Raises:
        PyinfraError: another run has it, or the Spark does not say.
    """

    def __init__(self, host: Host, owner: str) -> None:
        self._name = spark_name(host)
        self._host = host
        self._recorded: set[str] = set()
        self._released = threading.Event()
        command = make_unix_command_for_host(
            host.state,
            host,
            StringCommand(hold_script(owner, settings(host).root)),
            _sudo=uses_sudo(host),
        ).get_raw_value()
        client = getattr(host.connector, "client", None)
        try:
            self._command = _Remote(client, command) if client else _Local(command)
            other = holder(self._command.line())
        except (OSError, EOFError, SSHException) as error:
            raise PyinfraError(f"{self._name}: no connection: {cause(str(error))}") from None
        except ValueError as error:
            self.release()
            raise PyinfraError(f"{self._name}: /run/sparkwright: {error}") from None
        if other is not None:
            self.release()
            raise PyinfraError(
                f"{self._name}: found another run at work on it ({other}); expected none. Wait for "
                f"its end; where its machine is gone, the Spark is free after {SILENCE} s."
            )
        threading.Thread(target=self._beat, daemon=True).start()

    @property
    def trouble(self) -> str:
        """Say why the run has lost this lock; "" while it has it, or where the Spark is lost.

        Of a lost Spark, what the run does there next tells.
        """
        if not self._command.ended() or not self._command.connected():
            return ""
        return (
            f"{self._name}: this run lost its lease (did this machine sleep?), and another run "
            "may be changing the Spark. When that run has ended, repeat this command."
        )

    def record(self, op_hash: str) -> None:
        """Note once that an operation has changed the Spark, or has failed there."""
        run: State = self._host.state
        if op_hash in self._recorded or op_hash not in run.ops[self._host]:
            return
        done = run.get_op_data_for_host(self._host, op_hash).operation_meta
        if not done.is_complete():
            return
        self._recorded.add(op_hash)
        if done.did_change() or done.did_error():
            name = ", ".join(sorted(run.get_op_meta(op_hash).names))
            with suppress(OSError, EOFError, SSHException, ValueError):
                self._command.say(f"{name}{' failed' if done.did_error() else ''}")

    def release(self) -> None:
        """Give the lock back; on a Spark that cannot be reached it ends by itself."""
        self._released.set()
        with suppress(OSError, EOFError, SSHException):
            self._command.let_go()
        deadline = time.monotonic() + ANSWER
        while self._command.connected() and not self._command.ended():
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)

    def _beat(self) -> None:
        with suppress(OSError, EOFError, SSHException, ValueError):
            while not self._released.wait(BEAT):
                self._command.say()


class _Local:
    """A command on this machine that outlasts an operation."""

    def __init__(self, command: str) -> None:
        self._process = subprocess.Popen(
            ["sh", "-c", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )

    def line(self) -> str:
        """Return the first line that it says."""
        assert self._process.stdout
        return self._process.stdout.readline().decode()

    def say(self, line: str = "") -> None:
        """Have it hear a line."""
        assert self._process.stdin
        self._process.stdin.write(f"{line}\n".encode())

    def let_go(self) -> None:
        """Have it hear the end."""
        assert self._process.stdin
        self._process.stdin.close()

    def ended(self) -> bool:
        """Tell whether the command has ended."""
        return self._process.poll() is not None

    @staticmethod
    def connected() -> bool:
        """Tell whether the command can be reached."""
        return True


class _Remote:
    """The same on a Spark: a channel of the connection that there is.

    Raises:
        OSError, EOFError, SSHException: there is none any more.
    """

    def __init__(self, client: SSHClient, command: str) -> None:
        transport = client.get_transport()
        if transport is None:
            raise EOFError
        self._transport = transport
        self._channel = transport.open_session(timeout=ANSWER)
        self._channel.settimeout(ANSWER)
        self._channel.exec_command(command)

    def line(self) -> str:
        said, ends = b"", time.monotonic() + ANSWER
        while b"\n" not in said and len(said) < _WORDS:
            self._channel.settimeout(max(0.0, ends - time.monotonic()))
            if not (part := self._channel.recv(_WORDS)):
                break
            said += part
        self._channel.settimeout(ANSWER)
        return said.partition(b"\n")[0].decode(errors="replace")

    def say(self, line: str = "") -> None:
        self._channel.sendall(f"{line}\n".encode())

    def let_go(self) -> None:
        self._channel.shutdown_write()

    def ended(self) -> bool:
        return self._channel.exit_status_ready()

    def connected(self) -> bool:
        return self._transport.is_active()


def _this_run() -> str:
    # Options stay out: a value of --data may be a secret.
    files = [word for word in sys.argv[1:] if word.endswith(".py")]
    name = f"{getpass.getuser()} at {socket.gethostname()}: {' '.join(files)}, {_version()}"
    return " ".join(name.split())


def _version() -> str:
    """Return which Sparkwright this is: its commit, where git knows it."""
    command = ["git", "describe", "--always", "--dirty"]
    try:
        commit = subprocess.check_output(
            command, cwd=Path(__file__).parent, stderr=subprocess.DEVNULL, text=True
        )
    except (OSError, subprocess.CalledProcessError):
        commit = "of no known commit"
    return f"Sparkwright {commit.strip()}"
