"""What deploys say: reports for people and machines, and the last line of a run that changes."""

import sys
from pathlib import Path

import click
from pyinfra import state
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.state import StateStage

from sparkwright.common.local_file import write_file
from sparkwright.common.terminal import plain
from sparkwright.run.ending import at_end

# The last lines of the run, by replica or Spark.
_results: dict[str, str] = {}


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
    """Write JSON to a path, or to "-", standard output; return whether people get a report, too."""
    if target == "-":
        click.echo(text)
    elif target:
        write_file(Path(target), f"{text}\n")
    return target != "-"


def conclude(name: str, result: str) -> None:
    """Have this run, unless it only plans, end with a line about a replica or Spark.

    A later line of the same name replaces this one.
    """
    if state.current_stage != StateStage.Execute:
        return
    if not _results:
        at_end(lambda: click.echo("\n" + "\n".join(map(plain, _results.values()))))
    _results[name] = f"{name}{result}"
