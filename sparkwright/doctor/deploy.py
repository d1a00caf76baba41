"""The deploy that diagnoses a Spark, and changes nothing."""

import getpass
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import click
from huggingface_hub import get_token
from pyinfra import state
from pyinfra.api import deploy
from pyinfra.api.exceptions import PyinfraError

from sparkwright.causes.cause import Diagnosis
from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import write_file
from sparkwright.common.operations import is_dry_run, notice
from sparkwright.doctor.checkup import Checkup
from sparkwright.doctor.issue_report import Examined, issue_report
from sparkwright.doctor.operations import doctor
from sparkwright.doctor.redaction import Redactor
from sparkwright.doctor.site_names import site_names, spark_numbers
from sparkwright.release.lock import lock_path, read_lock
from sparkwright.run.spark import fleet_of, recipe_of
from sparkwright.run.survey import surveyed
from sparkwright.run.target import Target, seats, target_of

# What was found on the Sparks of this run, by their names: by SPARK/REPLICA of a second replica.
_examined: dict[str, Examined] = {}


@deploy("Doctor")
def apply() -> None:
    """Name what ails the Spark; with `--data report=FILE` also in a report for an issue."""
    with surveyed():
        for own in seats():
            doctor(
                name="What ails it",
                root=own.place,
                recipe=own.recipe_name,
                hardware=own.hardware,
                plan=own.fabric,
                peer=own.peer,
                wanted=_wanted(own),
                may_listen=own.may_listen,
                examined=partial(_keep, own) if own.options.report else None,
            )


def _name(own: Target) -> str:
    return f"{own.spark}/{own.seat}" if own.seat else own.spark


def _wanted(own: Target) -> str | None:
    """Return the release that is asked for; a doctor looks nothing up that the lock lacks."""
    try:
        served = own.release_by(read_lock(lock_path(own.fleet)))
        return served.id if served else ""
    except PlanError:
        return None


def _keep(own: Target, checkup: Checkup | None, diagnoses: Sequence[Diagnosis]) -> None:
    """Keep what was found on the current Spark; with the last Spark of a run, report all."""
    _examined[_name(own)] = Examined(
        hardware=own.hardware_class,
        recipe=own.recipe,
        recipe_name=own.recipe_name,
        rank=own.rank,
        sparks=len(own.ranks),
        checkup=checkup,
        diagnoses=diagnoses,
    )
    run = (seat for each in state.active_hosts for seat in target_of(each).chosen_seats)
    if {_name(seat) for seat in run} <= _examined.keys():
        _report(own)


def _report(own: Target) -> None:
    fleet, path = fleet_of(own.fleet), own.options.report
    read = {name: each.checkup for name, each in _examined.items() if each.checkup}
    hostnames = {name.partition("/")[0]: checkup.system.hostname for name, checkup in read.items()}
    recipes = {name: recipe_of(name) for name in fleet.recipes}
    redact = Redactor(site_names(fleet, recipes, hostnames, [*_operator()]))
    numbers = {
        name: f"{number}, second replica" if name != spark else number
        for spark, number in spark_numbers(fleet).items()
        for name in (spark, *(each for each in _examined if each.startswith(f"{spark}/")))
    }
    text = issue_report(_examined, numbers, redact)
    if path == "-":
        click.echo(text, nl=False)
    elif path and not is_dry_run():
        try:
            write_file(Path(path), text, mode=0o600)
        except OSError as error:
            raise PyinfraError(f"{path}: cannot be written ({error.strerror})") from None
        notice(f"the report is in {path}: look through it before you publish it", "green")


def _operator() -> Iterator[str]:
    """Yield what identifies the machine that runs pyinfra, and its user."""
    # A container may have no user of that number.
    with suppress(KeyError, OSError):
        yield getpass.getuser()
    yield from (str(Path.home()), Path.home().name)
    yield from (socket.gethostname(), socket.gethostname().partition(".")[0])
    if token := get_token():
        yield token
