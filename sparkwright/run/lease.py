"""The lease by which one run at a time changes a Spark, and the record of its changes there."""

import getpass
import os
import shlex
import socket
import sys
import threading
from contextlib import suppress

import gevent
from pyinfra import state
from pyinfra.api import Host, State, StringCommand
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.state import BaseStateCallback

from sparkwright import __version__
from sparkwright.common.operations import spark_name, step_name
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.progress import time_text
from sparkwright.common.render import render
from sparkwright.common.terminal import plain
from sparkwright.run.beside import LOSSES, run_beside
from sparkwright.run.ssh import cause
from sparkwright.run.target import target_of

# Seconds within which a Spark answers who holds its lease, and ends the lease on request.
ANSWER = 60
# Seconds between two signs of life of the run that holds a lease, and the silence after which the
# Spark ends the lease. A connection counts as dead after 60 s (sparkwright/run/upstream.py), so a
# living run is heard of earlier.
BEAT, SILENCE = 20, 90
# Seconds that a run waits for the lease: one that was just killed holds it for a moment.
WAIT = 3

# In memory: a Spark that boots has no run.
FOLDER = "/run/sparkwright"

_HOLD = HOST_FILES / "run" / "hold-lease.sh"
_HELD, _TAKEN = "held", "taken by "


def hold_lease() -> None:
    """Make this run the only one that changes its Sparks, from its first operation to its last.

    If another run holds the lease of a Spark, or a Spark does not answer, this run ends before its
    first operation. A plan needs no lease: a dry run may look while another run works.
    """
    if not any(isinstance(handler, LeaseKeeper) for handler in state.callback_handlers):
        state.add_callback_handler(LeaseKeeper())


def hold_script(owner: str, root: str) -> str:
    """Return the POSIX shell script that holds a Spark's lease; its first line names the holder.

    It holds the lease for as long as a line comes on its standard input every `SILENCE` seconds, so
    the lease ends with the connection of the run, or with its machine. A line that is not empty is
    added to the record, after the time and the owner. Without the record's folder, which the first
    run makes, such lines wait.
    """
    values = {"folder": FOLDER, "wait": WAIT, "silence": SILENCE, "held": _HELD, "taken": _TAKEN}
    record = shlex.quote(f"{root}/state/changes.log")
    return render(_HOLD, record=record, owner=shlex.quote(owner), **values)


def holder(line: str) -> str | None:
    """Return who else holds the lease; None if this run does. Another line is a ValueError."""
    line = line.rstrip("\n")
    if line == _HELD:
        return None
    if line.startswith(_TAKEN):
        who, since, time = line.removeprefix(_TAKEN).rpartition(", since ")
        if since and time.isdecimal():
            return f"{who}, since {time_text(int(time), '%d %b %H:%M')}"
        return line.removeprefix(_TAKEN) or "nobody knows whose"
    raise ValueError(f"found {line!r}; expected the lease, or its holder")


class LeaseKeeper(BaseStateCallback):
    """Holds the lease of each Spark, by a channel of its own that is open as long as the run is.

    However the run ends, its channels end, and with them the leases. A Spark that is lost ends only
    its own lease.
    """

    def __init__(self) -> None:
        self._leases: dict[Host, _Lease] = {}

    @property
    def lost(self) -> str:
        """Why the run may not go on; "" while it holds all its leases."""
        return next(filter(None, (lease.trouble for lease in self._leases.values())), "")

    def operation_start(self, state: State, op_hash: str) -> None:  # type: ignore[override]
        """Take the leases before the first operation; end the run once one is lost."""
        if self.lost:
            raise PyinfraError(self.lost)
        if self._leases:
            return
        owner = _this_run()
        first, *others = sorted(state.active_hosts, key=lambda each: each.name)
        # Of two runs of the same Sparks that begin together, the first lease decides.
        self._take(first, owner)
        gevent.joinall(taken := [gevent.spawn(self._take, each, owner) for each in others])
        for each in taken:
            each.get()

    def _take(self, host: Host, owner: str) -> None:
        self._leases[host] = _Lease(host, owner)

    def operation_end(self, state: State, op_hash: str) -> None:  # type: ignore[override]
        """Record on each Spark whether the operation changed it."""
        for lease in self._leases.values():
            lease.record(op_hash)

    def host_disconnect(self, state: State, host: Host) -> None:  # type: ignore[override]
        """Release a lease at the end of the run; a killed run releases its leases by its end."""
        if lease := self._leases.pop(host, None):
            # After a failure, pyinfra does not call `operation_end`.
            for op_hash in state.get_op_order():
                lease.record(op_hash)
            lease.release()


class _Lease:
    """The lease of one Spark: a command there holds it for as long as this run writes to it."""

    def __init__(self, host: Host, owner: str) -> None:
        self._name, self._host = spark_name(host), host
        self._recorded: set[str] = set()
        self._released = threading.Event()
        script = StringCommand(hold_script(owner, target_of(host).root))
        try:
            self._command = run_beside(host, script, ANSWER)
            other = holder(self._command.read_line())
        except LOSSES as error:
            raise PyinfraError(f"{self._name}: no connection: {cause(str(error))}") from None
        except ValueError as error:
            _, said = self._command.end()
            reason = plain(said.decode(errors="replace").strip())
            raise PyinfraError(f"{self._name}: {FOLDER}: {error}. {reason}".rstrip()) from None
        if other is not None:
            self.release()
            if other.startswith(f"{owner},"):
                raise PyinfraError(
                    f"{self._name} is the same machine as another Spark of this run; expected one "
                    "name for each. Nothing was changed."
                )
            raise PyinfraError(
                f"{self._name}: found another run at work on it ({other}); expected none. Wait for "
                f"its end; where its machine is gone, the Spark is free after {SILENCE} s."
            )
        threading.Thread(target=self._beat, daemon=True).start()

    @property
    def trouble(self) -> str:
        """Why the run has lost this lease; "" while it has it, or nobody can reach the Spark."""
        if not self._command.is_lost():
            return ""
        return (
            f"{self._name}: this run lost its lease (did this machine sleep?), and another run "
            "may be changing the Spark. When that run has ended, repeat this command."
        )

    def record(self, op_hash: str) -> None:
        """Record, once, that an operation changed the Spark or failed there."""
        run: State = self._host.state
        if op_hash in self._recorded or op_hash not in run.ops[self._host]:
            return
        done = run.get_op_data_for_host(self._host, op_hash).operation_meta
        if not done.is_complete():
            return
        self._recorded.add(op_hash)
        if done.did_change() or done.did_error():
            with suppress(*LOSSES, ValueError):
                self._write(f"{step_name(op_hash)}{' failed' if done.did_error() else ''}")

    def release(self) -> None:
        """Release the lease; on a Spark that cannot be reached it ends by itself."""
        self._released.set()
        self._command.end()

    def _beat(self) -> None:
        with suppress(*LOSSES, ValueError):
            while not self._released.wait(BEAT):
                self._write()

    def _write(self, line: str = "") -> None:
        self._command.input.write(f"{line}\n".encode())
        self._command.input.flush()


def _this_run() -> str:
    # Without options: a value of --data may be a secret.
    files = [word for word in sys.argv[1:] if word.endswith(".py")]
    who = f"{getpass.getuser()} at {socket.gethostname()}"
    run = f"{who}: {' '.join(files)}, Sparkwright {__version__}, process {os.getpid()}"
    return " ".join(run.split())
