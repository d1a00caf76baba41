"""The common parts of the deploys that only report: status, drift and doctor."""

import sys
from pathlib import Path

import click
from pyinfra.api.exceptions import PyinfraError

from sparkwright.common.local_file import write_file


def check_alone(what: str) -> None:
    """Refuse a run of other deploys beside this one.

    Raises:
        PyinfraError: the command line names others.
    """
    # pyinfra's deploys do not know of each other.
    deploys = [word for word in sys.argv if Path(word).match("deploys/*.py")]
    if len(deploys) > 1:
        raise PyinfraError(
            f"found {' '.join(deploys)}; expected {what} alone, as the run ends with it"
        )


def tell_machines(target: str | None, text: str) -> bool:
    """Write JSON to the target of `--data json=`; return whether to print a report for people, too.

    Args:
        target: a path, "-" for standard output, or None for no JSON.
        text: the JSON.
    """
    if target == "-":
        click.echo(text)
    elif target:
        write_file(Path(target), f"{text}\n")
    return target != "-"
