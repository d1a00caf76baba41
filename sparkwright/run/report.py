"""The common parts of deploys that look at all Sparks, tell, and end the run."""

import sys
from pathlib import Path

import click
from pyinfra.api.exceptions import PyinfraError

from sparkwright.common.local_file import write_file


def check_alone(what: str) -> None:
    """Refuse a run of more than this deploy.

    Args:
        what: this deploy, as the message calls it.

    Raises:
        PyinfraError: the command line names others.
    """
    # pyinfra tells its deploys nothing of each other.
    deploys = [word for word in sys.argv if Path(word).match("deploys/*.py")]
    if len(deploys) > 1:
        raise PyinfraError(
            f"found {' '.join(deploys)}; expected {what} alone, as the run ends with it"
        )


def tell_machines(target: str | None, told: str) -> bool:
    """Give JSON to whom `--data json=` names; return whether people are to be told as well.

    Args:
        target: what `json_target` returned.
        told: the JSON.
    """
    if target == "-":
        click.echo(told)
    elif target:
        write_file(Path(target), f"{told}\n")
    return target != "-"
