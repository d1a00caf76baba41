"""The deploy that diagnoses a Spark, and changes nothing."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
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
from sparkwright.release.lock import lock_path, read_lock
from sparkwright.run.spark import fleet_of
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
    # Names are the owner's: a public text has numbers.
    numbers = {name: f"spark{number}" for number, name in enumerate(fleet.sparks, start=1)}
    found = {}
    for name in sorted(_examined, key=lambda name: [*numbers].index(name.partition("/")[0])):
        spark, seat, _ = name.partition("/")
        found[numbers[spark] + (", second replica" if seat else "")] = _examined[name]
    text = issue_report(found, len(fleet.sparks))
    if path == "-":
        click.echo(text, nl=False)
    elif path and not is_dry_run():
        try:
            write_file(Path(path), text, mode=0o600)
        except OSError as error:
            raise PyinfraError(f"{path}: cannot be written ({error.strerror})") from None
        notice(f"the report is in {path}", "green")
