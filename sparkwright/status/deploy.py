"""The deploy that reads all Sparks, shows one table of their status, and changes nothing."""

import shutil
import sys
import time

import click
from pyinfra import host, inventory, state
from pyinfra.api import Host
from pyinfra.api.exceptions import ConnectError

from sparkwright.common.terminal import plain
from sparkwright.run.command_line import check_is_run
from sparkwright.run.report import check_alone, tell_machines
from sparkwright.run.target import target, target_of
from sparkwright.status.facts import SparkStatus
from sparkwright.status.status import PATIENCE, Reading, SparkRow
from sparkwright.status.table import as_json, table
from sparkwright.status.warnings import warnings


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
    sparks = [each for each in inventory if state.is_host_in_limit(each)]
    # pyinfra has just tried the unreachable ones: only the second reading tries them again.
    reachable = [each for each in sparks if each in state.active_hosts]
    while True:
        rows = dict(zip(reachable, state.fact_pool.map(_read, reachable), strict=True))
        reachable = sparks
        told = [rows.get(each) or _row(each) for each in sparks]
        _show(told, path, bool(seconds))
        if not seconds:
            sys.exit(0 if all(row.reading for row in told) else 1)
        time.sleep(seconds)


def without_answers() -> None:
    """Show a fleet of which no Spark could be reached: pyinfra then runs no deploy."""
    sparks = [each for each in inventory if state.is_host_in_limit(each)]
    _show([_row(each) for each in sparks], target_of(sparks[0]).options.json_target, False)


def _width() -> int | None:
    """Return the columns of the terminal; None for a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _read(spark: Host) -> SparkRow:
    """Read one Spark; the next reading replaces a connection that has broken."""
    try:
        reading: Reading | None = spark.get_fact(
            SparkStatus,
            root=target_of(spark).root,
            _sudo=False,
            _timeout=PATIENCE,
            _ignore_errors=True,
        )
    except ConnectError:
        return _row(spark)
    if reading is None:
        client = getattr(spark.connector, "client", None)
        transport = client.get_transport() if client else None
        slow = not client or bool(transport and transport.is_active())
        spark.disconnect()
        return _row(spark, slow=slow)
    return _row(spark, reading)


def _row(spark: Host, reading: Reading | None = None, slow: bool = False) -> SparkRow:
    own = target_of(spark)
    name = own.recipe.name if own.recipe else None
    return SparkRow(own.spark, own.replica, name, own.rank, reading, slow)


def _show(rows: list[SparkRow], path: str | None, again: bool) -> None:
    if not tell_machines(path, as_json(rows, time.time())):
        return
    if again and sys.stdout.isatty():
        click.clear()
    click.echo("\n".join(map(plain, table(rows, _width()))))
    for row in rows:
        for warning in warnings(row):
            click.secho(plain(f"{row.spark}: {warning}"), fg="yellow" if row.reading else "red")
    if again:
        click.echo(f"{time.strftime('%H:%M:%S')} · Ctrl-C ends it\n")
