"""One run at a time changes a Spark: what keeps two people's runs apart."""

import getpass
import os
import socket
import sys
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path

from pyinfra import state
from pyinfra.api import Host, State, StringCommand
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.state import BaseStateCallback

from deploys.plan.lease import (
    RENEWAL,
    Holder,
    Lease,
    give_back_script,
    parse_lease,
    take_script,
)


def hold_lease() -> None:
    """Have this run be the only one that changes its Sparks, from its first operation to its last.

    Planning takes nothing: a dry run may look while another run works.

    Raises:
        PyinfraError: as the first operation begins: another run is at work on one of the Sparks,
            or one does not say. Nothing was changed.
    """
    if not any(isinstance(handler, LeaseKeeper) for handler in state.callback_handlers):
        state.add_callback_handler(LeaseKeeper())


def lost_lease(run: State) -> str:
    """Return why a run may change nothing any more; "" as long as it may."""
    keepers = [each for each in run.callback_handlers if isinstance(each, LeaseKeeper)]
    return keepers[0].lost if keepers else ""


class LeaseKeeper(BaseStateCallback):
    """Takes a lease on each Spark, renews it, and gives it back.

    A run that fails or is killed gives nothing back: its lease runs out, and a run from the same
    machine sees that it is dead.
    """

    def __init__(self) -> None:
        self.lost = ""
        self._holder = _this_run()
        self._held: list[Host] = []
        self._ended = threading.Event()
        self._renewing = threading.Thread(target=self._renew, daemon=True)

    def operation_start(self, state: State, op_hash: str) -> None:  # type: ignore[override]
        """Take the leases before the first operation; stop when one was lost since."""
        if self.lost:
            raise PyinfraError(self.lost)
        if self._renewing.is_alive():
            return
        # In one order in all runs: of two that begin together, one gets them all.
        for host in sorted(state.active_hosts, key=lambda each: each.name):
            try:
                _take(host, self._holder)
            except PyinfraError:
                self._give_back()
                raise
            self._held.append(host)
        self._renewing.start()

    def operation_end(self, state: State, op_hash: str) -> None:  # type: ignore[override]
        """Give the leases back after the last operation."""
        if op_hash == state.get_op_order()[-1]:
            self._ended.set()
            # A renewal on its way would take the lease again.
            self._renewing.join()
            self._give_back()

    def _renew(self) -> None:
        while not self._ended.wait(RENEWAL):
            for host in self._held:
                try:
                    lease = _ask(host, take_script(self._holder))
                except PyinfraError:
                    # A Spark that cannot be reached: what the run does next will tell.
                    continue
                if lease.holder and lease.holder != self._holder:
                    self.lost = _refusal(host, lease)
                    return

    def _give_back(self) -> None:
        for host in self._held:
            _run(host, give_back_script(self._holder))
        self._held = []


def _this_run() -> Holder:
    # Options stay out: a value of --data may be a secret.
    files = [word for word in sys.argv[1:] if word.endswith(".py")]
    name = f"{getpass.getuser()} at {socket.gethostname()}: {' '.join(files)}"
    return Holder(_machine(), os.getpid(), " ".join(name.split()))


def _machine() -> str:
    """Return an id of what counts processes as this one's system does.

    Containers of one machine, or of two that were set up alike, may share a network address, but
    not their processes: a run in another one that cannot be seen from here is not dead.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}.{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        # Another system than Linux.
        return f"{uuid.getnode():012x}"


def _take(host: Host, holder: Holder) -> None:
    lease = _ask(host, take_script(holder))
    if lease.holder and lease.holder != holder and _is_dead(lease.holder, holder):
        lease = _ask(host, take_script(holder, over=lease.holder))
    if lease.holder != holder:
        raise PyinfraError(_refusal(host, lease))


def _is_dead(other: Holder, this: Holder) -> bool:
    """Whether a run was one of this machine, and has ended."""
    if other.machine != this.machine:
        return False
    try:
        os.kill(other.process, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _refusal(host: Host, lease: Lease) -> str:
    holder = lease.holder.name if lease.holder else "nobody"
    return (
        f"{host.data.get('spark')}: found another run at work on it ({holder}); expected none. "
        f"Wait for its end; if it is dead, its lease runs out in {lease.seconds} s."
    )


def _ask(host: Host, script: str) -> Lease:
    answered, lines = _run(host, script)
    try:
        if not answered:
            raise ValueError("no lease could be written")
        return parse_lease(lines)
    except ValueError as error:
        raise PyinfraError(f"{host.data.get('spark')}: /run/sparkwright: {error}") from None


def _run(host: Host, script: str) -> tuple[bool, Sequence[str]]:
    done, output = host.run_shell_command(
        StringCommand(script), _sudo=bool(host.data.get("_sudo", False))
    )
    return done, output.stdout_lines
