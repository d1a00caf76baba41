"""The deploy that shows the differences from what is declared, and changes nothing."""

import sys
import time
from collections.abc import Generator, Iterator
from typing import Any

import click
from pyinfra import host, inventory, local, state
from pyinfra.api import StringCommand, operation
from pyinfra.api.exceptions import PyinfraError

from sparkwright.common.command_line import next_line
from sparkwright.common.errors import Difference, PlanError
from sparkwright.common.operations import differs, look
from sparkwright.common.part import Ask
from sparkwright.common.terminal import plain
from sparkwright.door.keys import has_keys, keys_path
from sparkwright.insight.doctor.listeners import LISTENING, astray, others, unguarded
from sparkwright.insight.drift.drift import (
    as_json,
    ask_running,
    exit_status,
    running_differences,
    spark_differences,
)
from sparkwright.plan.release.container import ALONE
from sparkwright.plan.release.lock import lock_path, read_lock, unresolved
from sparkwright.run.ending import check_alone, tell_machines
from sparkwright.run.failures import why_silent
from sparkwright.run.session import check_is_run
from sparkwright.run.spark import fleet_of
from sparkwright.run.state import expect, read
from sparkwright.run.target import Target, bad_input, target, target_of

# The deploy whose operations converge a Spark, and so know how it differs.
_CONVERGES = "deploys/spark.py"
# What this run has found, by Spark: the differences; why it was not read; programs that are not
# ours and listen beyond loopback.
_differences: dict[str, list[Difference]] = {}
_unread: dict[str, str] = {}
_others: dict[str, list[str]] = {}


def apply() -> None:
    """Read the current Spark; the last Spark shows the differences of all, and ends the run.

    It is no `@deploy`, since the steps that it includes are.

    Raises:
        PyinfraError: what is declared is invalid, or was never deployed.
        SystemExit: by the last Spark, before pyinfra would ask whether to execute.
    """
    check_is_run()
    with bad_input():
        _check_declared()
    check_alone("drift")
    # pyinfra must not ask whether to go on without a host that could not be read.
    state.should_raise_failed_hosts = None
    try:
        _differences[target().spark] = look(_steps)
    except PyinfraError as error:
        together = state.failed_hosts.intersection(target().together)
        silent = " and ".join(sorted(target_of(each).spark for each in together))
        _unread[target().spark] = f"{silent} cannot be read" if silent else str(error)
    if len(_differences) + len(_unread) == len(state.activated_hosts):
        _show(target().options.json_target)


def without_answers() -> None:
    """Show that no Spark could be read: pyinfra then runs no deploy."""
    sparks = [target_of(each) for each in inventory if state.is_host_in_limit(each)]
    _show(sparks[0].options.json_target)


def _check_declared() -> None:
    """Refuse a site whose lock or keys are incomplete: only `deploys/spark.py` writes them."""
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


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what drift reads beside the steps of a run."""
    yield LISTENING
    for seat in own.seats:
        yield ask_running(seat.place, seat.release)


def _steps() -> None:
    """Call all operations that would converge the Spark, and compare what they do not."""
    own = target()
    expect(own.host, lambda: reads(own))
    local.include(_CONVERGES)
    running(name="What runs", own=own)


@operation()
def running(own: Target) -> Generator[StringCommand]:
    """Record how engines, listeners, GPU, packages and kernel differ from what is declared."""
    releases = [each.id for seat in own.seats if (each := seat.release)]
    found = [read(host, ask_running(seat.place, seat.release)) for seat in own.seats]
    # What is the Spark's own is alike in both.
    for difference in spark_differences(found[0], releases, own.settings.gpu_clock_max_mhz):
        differs(*difference)
    for seat, engine in zip(own.seats, found, strict=True):
        for difference in running_differences(engine, seat.release):
            differs(*difference)
    listening = read(host, LISTENING)
    for socket in astray(listening, own.may_listen):
        differs("listeners", "only those on the list", socket)
    for group in unguarded(listening):
        differs("guard of the engine", f"its container in {ALONE}", f"in {group}")
    if sockets := others(listening, own.may_listen):
        _others[own.spark] = sockets
    yield from ()


def _show(path: str | None) -> None:
    silent = {target_of(each).spark: why_silent(each) for each in state.failed_hosts}
    unread = silent | _unread
    known = {spark: each for spark, each in _differences.items() if spark not in unread}
    if tell_machines(path, as_json(known, unread, time.time())):
        for spark in sorted(known):
            for difference in known[spark]:
                click.echo(plain(f"{spark}: {difference}"))
    for spark, sockets in sorted(_others.items()):
        click.echo(plain(f"{spark}: not ours, and open to the LAN: {', '.join(sockets)}"), err=True)
    for spark in sorted(unread):
        click.secho(plain(f"{spark}: not looked at: {unread[spark]}"), fg="red", err=True)
    if not unread and not any(known.values()):
        sparks = "1 Spark" if len(known) == 1 else f"{len(known)} Sparks"
        click.echo(f"Nothing differs on {sparks}.", err=True)
    sys.exit(exit_status(known, unread))
