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

# What the run has made so, by replica or Spark.
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
    """Write JSON to the target of `--data json=`; return whether to print a report for people, too.

    Args:
        target: a path, "-" for standard output, or None for no JSON.
    """
    if target == "-":
        click.echo(text)
    elif target:
        write_file(Path(target), f"{text}\n")
    return target != "-"


def conclude(name: str, result: str) -> None:
    """Have this run end with a line of what is now so; of a plan, nothing is.

    Args:
        name: the replica or Spark; a later line about it replaces this one.
        result: what follows its name.
    """
    if state.current_stage != StateStage.Execute:
        return
    if not _results:
        at_end(lambda: click.echo("\n" + "\n".join(map(plain, _results.values()))))
    _results[name] = f"{name}{result}"
