"""The deploy that diagnoses a Spark, and changes nothing."""

import time
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from pyinfra import host, inventory, state
from pyinfra.api import Host, StringCommand, deploy, operation

from sparkwright.common.errors import PlanError
from sparkwright.common.local_file import write_file
from sparkwright.common.operations import is_dry_run, is_first_pass, notice, spark_name
from sparkwright.common.part import Ask
from sparkwright.common.terminal import plain
from sparkwright.declared.fleet.fabric_plan import FabricLink
from sparkwright.declared.recipe.rules import published_faults
from sparkwright.engine.state import offer
from sparkwright.insight.doctor.checkup import Checkup
from sparkwright.insight.doctor.diagnosis import diagnose
from sparkwright.insight.doctor.listeners import LISTENING, astray, others
from sparkwright.insight.doctor.report import heading, probed, report, section, state_of_link
from sparkwright.machine.host.operations.system import System
from sparkwright.network.fabric import deploy as fabric
from sparkwright.network.fabric.link_check import link_findings
from sparkwright.plan.causes.log_causes import Diagnosis
from sparkwright.plan.release.lock import lock_path, read_lock
from sparkwright.run.failures import why_silent
from sparkwright.run.spark import fleet_of
from sparkwright.run.state import expect, read
from sparkwright.run.target import Target, seats, target, target_of

# The sections of the report of this run, by the place of their Spark and seat in the inventory.
_sections: dict[tuple[int, str], list[str]] = {}


@deploy("Doctor")
def apply() -> None:
    """Name what ails the Spark; with `--data report=FILE` also in a report for an issue."""
    own = target()
    expect(own.host, lambda: reads(own))
    for seat in seats():
        doctor(name="What ails it", own=seat)


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what the doctor asks of a Spark."""
    yield LISTENING
    yield System.ask(root=own.root, apt=True)
    yield from (Checkup.ask(root=seat.place) for seat in own.chosen_seats)
    yield from fabric.reads(own)


@operation()
def doctor(own: Target) -> Generator[StringCommand]:
    """Name the cause, the evidence and the remedy of what is wrong."""
    if own.recipe and (advisory := published_faults(own.recipe)):
        notice(advisory, "yellow")
    plan = own.fabric
    peers = [each for each in own.peers if each in state.active_hosts]
    checkup, diagnoses = None, list[Diagnosis]()
    try:
        checkup = read(host, Checkup.ask(root=own.place))
        checkup = checkup.model_copy(update={"skew": checkup.clock - time.time()})
        link = [
            fault
            for peer in peers
            if plan
            for fault in _link(plan.link(target_of(peer).spark), peer)
        ]
        listening, may = read(host, LISTENING), own.may_listen
        exposed = [probed("listener", socket) for socket in astray(listening, may)]
        diagnoses = diagnose(checkup, [*_absent(own, checkup), *link, *exposed], _wanted(own))
    finally:
        if own.options.report and is_first_pass():
            _add_to_report(own.options.report, own, checkup, diagnoses)
    for line, color in report(checkup, diagnoses, own.recipe_name, own.on_demand):
        notice(line, color)
    if foreign := others(listening, may):
        notice(f"not ours, and open to the LAN: {', '.join(foreign)}")
    for difference in read(host, System.ask(root=own.root, apt=True)).differences():
        notice(str(difference))
    host.noop("looked at, and left as it is")
    yield from ()


def without_answers() -> None:
    """Say why no Spark could be reached: pyinfra then runs no deploy."""
    for each in inventory:
        if state.is_host_in_limit(each):
            click.secho(plain(f"{spark_name(each)}: {why_silent(each)}"), fg="red")


def _absent(own: Target, checkup: Checkup) -> Iterator[Diagnosis]:
    """Yield the Sparks of a group that do not answer, and those that its supervisors miss."""
    missed = checkup.unit.missing(own.ranks) if checkup.unit else []
    there = (target_of(each) for each in own.peers if each in state.active_hosts)
    same = (seat for each in there for seat in each.seats if seat.replica == own.replica)
    units = [read(each.host, Checkup.ask(root=each.place)).unit for each in same]
    remedy = offer(own, checkup.unit, [checkup.unit, *units])
    for each in own.peers:
        name = spark_name(each)
        if each in state.failed_hosts:
            yield probed("spark-silent", f"{name}: {why_silent(each)}", remedy=remedy)
        elif name in missed and checkup.unit:
            yield probed("spark-missing", f"{own.spark}: {checkup.unit.status}", remedy=remedy)


def _wanted(own: Target) -> str | None:
    """Return the release that is asked for, "" for an idle Spark; None where the lock lacks it."""
    try:
        served = own.release_by(read_lock(lock_path(own.fleet)))
        return served.id if served else ""
    except PlanError:
        return None


def _link(between: FabricLink, peer: Host) -> list[Diagnosis]:
    """Return what is wrong with the link to another Spark of a group."""
    own, other, ends = fabric.read_link(between, peer)
    if ends is None:
        states = (*state_of_link(between.spark, own), *state_of_link(between.peer, other))
        return [probed("fabric", *states or ("none of its interfaces is there",))]
    return [
        Diagnosis("link", finding.found, f"from {between.spark}", finding.remedy)
        for finding in link_findings(between, ends, own, other, {})
    ]


def _add_to_report(
    path: str, own: Target, checkup: Checkup | None, diagnoses: Sequence[Diagnosis]
) -> None:
    """Add a Spark to the report, which has numbers for names: those are the owner's."""
    sparks = [*fleet_of(own.fleet).sparks]
    number, first = sparks.index(own.spark), not _sections
    which = own.replicas.index(own.replica or "") + 1 if own.seat else 0
    name = f"spark{number + 1}{f', replica {which}' if which else ''}"
    added = section(name, own, checkup, diagnoses)
    _sections[number, own.seat] = added
    examined = [target_of(each).spark for each in state.active_hosts]
    begin = heading(len(examined), len(sparks))
    if path == "-":
        click.echo("\n".join([*begin, *added] if first else added))
    elif not is_dry_run():
        lines = [line for _, each in sorted(_sections.items()) for line in each]
        write_file(Path(path), "\n".join([*begin, *lines, ""]), mode=0o600)
        if first:
            notice(f"the report is in {path}", "green")
