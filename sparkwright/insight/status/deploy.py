"""The deploy that reads all Sparks, shows one table of their status, and changes nothing."""

import shutil
import sys
import time
from collections.abc import Container, Sequence
from dataclasses import replace
from functools import partial

import click
from pyinfra import host, inventory, state
from pyinfra.api import Host
from pyinfra.api.exceptions import ConnectError, PyinfraError

from sparkwright.common.startup import last_starts
from sparkwright.common.terminal import plain
from sparkwright.door.door import door_unit
from sparkwright.insight.status import status
from sparkwright.insight.status.state import PATIENCE, Reading, SparkRow
from sparkwright.run.ending import check_alone, tell_machines
from sparkwright.run.failures import why_silent
from sparkwright.run.session import check_is_run
from sparkwright.run.state import answers
from sparkwright.run.target import Target, target, target_of


def apply() -> None:
    """Show the fleet; with `--data watch=SECONDS` until Ctrl-C, with `--data json=PATH` as JSON.

    There is nothing to converge, and so no operation: the run ends before pyinfra would ask
    whether to make changes. It is no `@deploy`, which would begin with a line for each Spark.

    Raises:
        PyinfraError: an option is invalid, or there is more to run than this.
        SystemExit: always; the status is 1 if a Spark gave no answer, else 0.
    """
    check_is_run()
    # pyinfra loads a deploy for all Sparks at once; one of them shows them all.
    if host.name != next(each.name for each in inventory if each in state.active_hosts):
        return
    seconds, path = target().options.watch, target().options.json_target
    check_alone("the status")
    # pyinfra has just tried the unreachable ones: only the second reading tries them again.
    asked: Container[Host] = {*state.active_hosts}
    while True:
        rows = state.fact_pool.map(partial(_read, asked), _seats())
        asked = {*inventory}
        _show(rows, path, bool(seconds))
        if not seconds:
            sys.exit(0 if all(row.reading for row in rows) else 1)
        time.sleep(seconds)


def without_answers() -> None:
    """Show a fleet of which no Spark could be reached: pyinfra then runs no deploy."""
    seats = _seats()
    _show([*map(_row, seats)], seats[0].options.json_target, False)


def _seats() -> list[Target]:
    """Return the replicas of the Sparks that the run is limited to."""
    sparks = [each for each in inventory if state.is_host_in_limit(each)]
    return [seat for each in sparks for seat in target_of(each).chosen_seats]


def _read(asked: Container[Host], seat: Target) -> SparkRow:
    """Read one replica of a Spark; the next reading replaces a connection that has broken."""
    spark = seat.host
    if spark not in asked:
        return _row(seat)
    ask = Reading.ask(root=seat.place, door=door_unit(seat.place))
    try:
        how = {"_sudo": False, "_timeout": PATIENCE, "_ignore_errors": True}
        return _row(seat, ask.value(*answers(spark, ask, **how)))
    except ConnectError:
        return _row(seat)
    except PyinfraError:
        client = getattr(spark.connector, "client", None)
        transport = client.get_transport() if client else None
        slow = not client or bool(transport and transport.is_active())
        spark.disconnect()
        return _row(seat, slow=slow)


def _row(own: Target, reading: Reading | None = None, slow: bool = False) -> SparkRow:
    name = own.recipe.name if own.recipe else None
    door = door_unit(own.place)
    silent = why_silent(own.host)
    lost = reading.unit.missing(own.ranks) if reading and reading.unit else []
    offer = own.offer(lost) if lost else ""
    return SparkRow(
        own.spark, own.replica, name, own.rank, reading, slow, silent, door, own.on_demand, offer
    )


def settled(rows: Sequence[SparkRow]) -> list[SparkRow]:
    """Return the rows, without offers to a replica that serves.

    Who comes back while the others serve without it misses them, and waits for the next run.
    """
    serving = {row.replica for row in rows if row.reading and row.reading.since}
    return [replace(row, offer="") if row.replica in serving else row for row in rows]


def _show(rows: list[SparkRow], path: str | None, again: bool) -> None:
    rows = settled(rows)
    if not tell_machines(path, status.as_json(rows, time.time())):
        return
    if again and sys.stdout.isatty():
        click.clear()
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    click.echo("\n".join(map(plain, status.table(rows, width))))
    sparks = [row.spark for row in rows]
    for row in rows:
        which = f" ({row.replica})" if sparks.count(row.spark) > 1 else ""
        if starts := last_starts(row.reading.starts if row.reading else ()):
            click.echo(plain(f"{row.spark}{which}: {starts}"))
        if turns := status.turns(row):
            click.echo(plain(f"{row.spark}{which}: {turns}"))
        for warning in status.warnings(row):
            line = plain(f"{row.spark}{which}: {warning}")
            click.secho(line, fg="yellow" if row.reading else "red")
    if again:
        click.echo(f"{time.strftime('%H:%M:%S')} · Ctrl-C ends it\n")
