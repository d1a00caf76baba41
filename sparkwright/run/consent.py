"""The question of a run: whether to do what it has just shown."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click
from pyinfra import state
from pyinfra.api.exceptions import PyinfraError

from sparkwright.common.local_file import written
from sparkwright.common.operations import spark_name

# What pyinfra says below its table, of operations that change what later ones find.
_REMARK = 5


def ask_in_words() -> None:
    """Have pyinfra ask a question that takes yes and no, and only where there is one."""
    # Outside of pyinfra, this import would patch the standard library.
    from pyinfra_cli import cli

    cli._do_confirm = _agreed


def would_change() -> bool:
    """Tell whether an operation of this run, which has been planned, would change a Spark."""
    return any(
        data.operation_meta.will_change
        for host in state.active_hosts
        for data in state.ops[host].values()
    )


def _agreed(_message: str) -> bool:
    """Return whether the run may go on; in the place of pyinfra's `_do_confirm`.

    Raises:
        PyinfraError: The plan has shown that the run would fail.
        SystemExit: The answer is no.
    """
    if failing := sorted(map(spark_name, state.failed_hosts)):
        raise PyinfraError(
            f"the run would fail on {' and '.join(failing)}: see above. Nothing was changed on any "
            f"Spark{_left()}"
        )
    if not would_change():
        return True
    if sys.stderr.isatty() and shutil.get_terminal_size().columns >= 80:
        click.echo(f"\033[{_REMARK}A\033[J", err=True, nl=False)
    try:
        agreed = click.confirm("\nDo this?", err=True)
    except click.Abort:
        raise EOFError from None
    if not agreed:
        click.echo(f"Nothing was changed on any Spark{_left()}", err=True)
        sys.exit(1)
    return True


def _left() -> str:
    """Return the end of a sentence about what stays on this machine."""
    names = ", ".join(os.path.relpath(path) for path in written if Path(path).exists())
    return f"; on this machine stays what the next run uses: {names}." if names else "."
