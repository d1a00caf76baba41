"""The session of every deploy: checks of the run, the connection's settings, failure reports."""

import socket
import sys
from pathlib import Path

from pyinfra import host, state
from pyinfra.api.exceptions import PyinfraError
from pyinfra.context import ctx_state

from sparkwright.common.command_line import next_line, verb_of
from sparkwright.common.operations import is_dry_run
from sparkwright.run.failures import report_failures, watch_connection
from sparkwright.run.sudo import check_sudo
from sparkwright.run.target import target, target_of

# Seconds between signs of life, and without an answer to one until the link counts as dead.
KEEPALIVE, DEAD_AFTER = 15, 60
# Seconds after which paramiko's reader of a silent connection looks for work of its own, such as
# that sign of life. Its default of 0.1 s was a fifth of the processor time of a fleet's run.
_POLL = 1


def check_is_run() -> None:
    """Refuse a deploy that Python itself runs: it has no host.

    Raises:
        SystemExit: With the command that runs it.
    """
    if not ctx_state.isset():
        path = Path(sys.argv[0])
        right = next_line(verb_of(path.stem))
        raise SystemExit(f"found {path.name} run by Python; expected: {right}")


def start_session() -> None:
    """Prepare the connection to the current host and, once a run, the report of failures.

    Raises:
        PyinfraError: only one Spark of a pair would run, or not beside the other, or sudo asks the
            host's user for a password; nothing was changed.
    """
    check_is_run()
    report_failures()
    if is_dry_run():
        # With -y, pyinfra would not plan, and have nothing to show.
        state.check_for_changes = True
    _check_pair()
    _tune_connection()
    watch_connection()
    _check_sudo()


def _check_pair() -> None:
    """Refuse a run in which one Spark of a pair would wait for the other for ever."""
    own = target()
    if not own.is_pair:
        return
    pair = f"replica {own.replica}"
    expected = " and ".join(own.ranks)
    if len(state.active_hosts.intersection(own.together)) < 2:
        raise PyinfraError(
            f"{pair}: only {own.spark} is in this run, but {expected} serve one model together: "
            f"--limit {own.replica} takes both, --exclude {own.replica} neither"
        )
    # Neither pyinfra's state nor its hosts know this option.
    if "--serial" in sys.argv:
        raise PyinfraError(
            f"{pair}: found --serial; expected it left out, as {expected} do each step at the same "
            "time"
        )
    # With as many hosts at once as there are pairs, each may wait for one that has yet to start.
    pairs = {each.replica for each in map(target_of, state.active_hosts) if each.is_pair}
    if len(pairs) >= state.config.PARALLEL:
        raise PyinfraError(
            f"{pair}: found --parallel {state.config.PARALLEL}; expected at least "
            f"{len(pairs) + 1}, as {expected} do each step at the same time"
        )


def _tune_connection() -> None:
    """Notice a dead link within a minute.

    Paramiko waits for ever for a host that has lost its power. A local host has no client; through
    a jump host the transport is no socket.
    """
    client = getattr(host.connector, "client", None)
    transport = client.get_transport() if client else None
    if transport and isinstance(transport.sock, socket.socket):
        transport.sock.settimeout(_POLL)
        transport.set_keepalive(KEEPALIVE)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
            transport.sock.setsockopt(
                socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_AFTER * 1000
            )


def _check_sudo() -> None:
    check_sudo(host)
