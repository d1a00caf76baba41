"""The deploy that shows the differences from what is declared, and changes nothing."""

import sys
import time
from dataclasses import dataclass, field

import click
from pyinfra import inventory, local, state
from pyinfra.api.exceptions import PyinfraError

from sparkwright.common.command_line import next_line
from sparkwright.common.difference import Difference, as_json, exit_status, line
from sparkwright.common.errors import PlanError
from sparkwright.common.operations import look
from sparkwright.common.terminal import plain
from sparkwright.door.keys import has_keys, keys_path
from sparkwright.drift.operations import listeners, running
from sparkwright.release.lock import lock_path, read_lock, unresolved
from sparkwright.run.failures import why_silent
from sparkwright.run.report import check_alone, tell_machines
from sparkwright.run.session import check_is_run
from sparkwright.run.spark import fleet_of
from sparkwright.run.survey import surveyed
from sparkwright.run.target import bad_input, target, target_of

# The deploy whose operations converge a Spark, and so know how it differs.
_CONVERGES = "deploys/spark.py"


@dataclass
class _DriftBook:
    """The results of a run, by Spark.

    Attributes:
        differences: of each Spark that was read.
        unread: why the others were not.
        others: programs that are not ours and listen beyond loopback.
    """

    differences: dict[str, list[Difference]] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    others: dict[str, list[str]] = field(default_factory=dict)


_book = _DriftBook()


def apply() -> None:
    """Read the current Spark; the last Spark shows the differences of all, and ends the run.

    There is nothing to execute: the run ends before pyinfra would ask whether to. It is no
    `@deploy`, since the steps that it includes are.

    Raises:
        PyinfraError: what is declared is invalid, or was never deployed.
        SystemExit: by the last Spark; with the status of `exit_status`.
    """
    check_is_run()
    with bad_input():
        _check_declared()
    check_alone("drift")
    # pyinfra must not ask whether to go on without a host that could not be read.
    state.should_raise_failed_hosts = None
    try:
        _book.differences[target().spark] = look(_steps)
    except PyinfraError as error:
        _book.unread[target().spark] = _reason(error)
    if len(_book.differences) + len(_book.unread) == len(state.activated_hosts):
        _show(target().options.json_target)


def without_answers() -> None:
    """Show that no Spark could be read: pyinfra then runs no deploy."""
    sparks = [target_of(each) for each in inventory if state.is_host_in_limit(each)]
    _show(sparks[0].options.json_target)


def _check_declared() -> None:
    """Refuse a site whose lock or keys are incomplete: only `deploys/spark.py` writes them.

    Raises:
        PlanError: the lock lacks a name, or there are no keys.
    """
    own = target()
    if own.recipe is None:
        return
    path, keys = lock_path(own.fleet), keys_path(own.fleet)
    recipes = [each.recipe for each in own.seats if each.recipe]
    problems = unresolved(recipes, read_lock(path), str(path))
    if any(each.api_key != "none" for each in own.seats) and not has_keys(fleet_of(own.fleet)):
        problems.append(
            f"{keys}: found no such file; expected the API keys of the doors: "
            f"{next_line('apply')} makes it"
        )
    if problems:
        raise PlanError(*problems)


def _steps() -> None:
    """Call all operations that would converge the Spark, and compare what they do not."""
    with surveyed():
        local.include(_CONVERGES)
        running(name="What runs", own=target())
        listeners(name="Listeners", own=target(), foreign=_book.others)


def _reason(error: PyinfraError) -> str:
    """Return why the current Spark could not be read."""
    together = state.failed_hosts.intersection(target().together)
    silent = sorted(target_of(each).spark for each in together)
    return f"{' and '.join(silent)} cannot be read" if silent else str(error)


def _show(path: str | None) -> None:
    silent = {target_of(each).spark: why_silent(each) for each in state.failed_hosts}
    unread = silent | _book.unread
    read = {spark: each for spark, each in _book.differences.items() if spark not in unread}
    if tell_machines(path, as_json(read, unread, time.time())):
        for spark in sorted(read):
            for difference in read[spark]:
                click.echo(plain(line(spark, difference)))
    for spark, sockets in sorted(_book.others.items()):
        click.echo(plain(f"{spark}: not ours, and open to the LAN: {', '.join(sockets)}"), err=True)
    for spark in sorted(unread):
        click.secho(plain(f"{spark}: not looked at: {unread[spark]}"), fg="red", err=True)
    if not unread and not any(read.values()):
        sparks = "1 Spark" if len(read) == 1 else f"{len(read)} Sparks"
        click.echo(f"Nothing differs on {sparks}.", err=True)
    sys.exit(exit_status(read, unread))
