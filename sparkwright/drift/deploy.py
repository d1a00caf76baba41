"""The deploy that tells what differs from what is declared, and changes nothing."""

import sys
import time
from dataclasses import dataclass, field

import click
from pyinfra import host, local, state
from pyinfra.api.exceptions import PyinfraError

from sparkwright.common.difference import Difference, as_json, exit_status, line
from sparkwright.common.errors import PlanError
from sparkwright.common.operations import differs, look
from sparkwright.common.terminal import plain
from sparkwright.doctor.facts import HostCheckup, Listeners
from sparkwright.doctor.listeners import astray, others, unguarded
from sparkwright.door.keys import keys_path
from sparkwright.drift.containers import running_differences
from sparkwright.drift.drift import host_differences
from sparkwright.drift.facts import WhatRuns
from sparkwright.release.guard import ALONE
from sparkwright.release.lock import lock_path, read_lock, unresolved
from sparkwright.run.report import check_alone, tell_machines
from sparkwright.run.target import bad_input, target, target_of

# What converges a Spark also tells how it differs.
_CONVERGES = "deploys/spark.py"


@dataclass
class _DriftBook:
    """The differences of all Sparks of the run; `unread` says why one was not looked at.

    `others` is what listens there and is not ours.
    """

    found: dict[str, list[Difference]] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    others: dict[str, list[str]] = field(default_factory=dict)


_book = _DriftBook()


def apply() -> None:
    """Look at the current Spark; when all were looked at, tell, and end the run.

    There is nothing to execute: the run ends before pyinfra would ask whether to. It is no
    `@deploy`: the steps that it runs are some.

    Raises:
        PyinfraError: what is declared cannot be, or was never deployed.
        SystemExit: by the Spark that is the last; with the status of `exit_status`.
    """
    with bad_input():
        _check_declared()
    check_alone("drift")
    # A look that failed is no reason to ask whether to go on.
    state.should_raise_failed_hosts = None
    try:
        _book.found[target().spark] = look(_steps)
    except PyinfraError as error:
        _book.unread[target().spark] = _reason(error)
    if len(_book.found) + len(_book.unread) == len(state.activated_hosts):
        _tell(target().options.json_target)


def _check_declared() -> None:
    """Refuse what only a first run of `deploys/spark.py` makes: a look asks and writes nothing.

    Raises:
        PlanError: the lock lacks a name, or there are no keys.
    """
    own = target()
    if own.recipe is None:
        return
    path, keys = lock_path(own.fleet), keys_path(own.fleet)
    problems = unresolved([own.recipe], read_lock(path), str(path))
    if own.api_key != "none" and not keys.exists():
        problems.append(
            f"{keys}: found no such file; expected the API keys of the doors, as a run "
            f"of {_CONVERGES} makes it"
        )
    if problems:
        raise PlanError(*problems)


def _steps() -> None:
    """Call all operations that would converge the Spark, and look where none does."""
    local.include(_CONVERGES)
    own = target()
    served = own.release
    running = host.get_fact(WhatRuns, images=served.images if served else ())
    for difference in (
        *running_differences(running, served, own.settings.gpu_clock_max_mhz),
        *host_differences(host.get_fact(HostCheckup, root=own.root)),
    ):
        differs(*difference)
    listening, may = host.get_fact(Listeners), own.may_listen
    for socket in astray(listening, may):
        differs("listeners", "only those on the list", socket)
    for group in unguarded(listening):
        differs("guard of the engine", f"its container in {ALONE}", f"in {group}")
    if foreign := others(listening, may):
        _book.others[own.spark] = foreign


def _reason(error: PyinfraError) -> str:
    """Return why the current Spark could not be looked at."""
    together = state.failed_hosts.intersection(target().together)
    silent = sorted(target_of(each).spark for each in together)
    return f"{' and '.join(silent)} cannot be read" if silent else str(error)


def _tell(path: str | None) -> None:
    failed = [target_of(each).spark for each in state.failed_hosts]
    unread = dict.fromkeys(failed, "no answer") | _book.unread
    found = {spark: _book.found[spark] for spark in _book.found if spark not in unread}
    if tell_machines(path, as_json(found, unread, time.time())):
        for spark in sorted(found):
            for difference in found[spark]:
                click.echo(plain(line(spark, difference)))
    for spark, sockets in sorted(_book.others.items()):
        click.echo(plain(f"{spark}: not ours, and open to the LAN: {', '.join(sockets)}"), err=True)
    for spark in sorted(unread):
        click.secho(plain(f"{spark}: not looked at: {unread[spark]}"), fg="red", err=True)
    sys.exit(exit_status(found, unread))
