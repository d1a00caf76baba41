"""The preflight: is this Spark fit for what it is to serve?"""

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pyinfra import host, logger, state
from pyinfra.api import Host, State, StringCommand, deploy, operation
from pyinfra.api.exceptions import PyinfraError

from sparkwright.common.errors import Finding, error
from sparkwright.common.operations import differs, failing, is_looking, notice, planning, spark_name
from sparkwright.common.part import Ask
from sparkwright.common.terminal import plain
from sparkwright.declared.recipe.rules import doubts
from sparkwright.machine.host.survey import Survey
from sparkwright.machine.preflight.preflight import differences, findings
from sparkwright.machine.preflight.requirements import Requirements, summary
from sparkwright.plan.memory.beside import engine_bytes
from sparkwright.plan.memory.check import memory_findings
from sparkwright.plan.memory.plan import plan_memory
from sparkwright.plan.memory.turns import Tenant, alone, room, together, unmet
from sparkwright.plan.release.lock import image_key, places
from sparkwright.run.spark import fleet_of
from sparkwright.run.state import read
from sparkwright.run.target import Target, bad_input, target

# By run and Spark: whether it was found unfit.
_judged: dict[State, dict[str, bool]] = {}
# By run and machine: the first of its names.
_machines: dict[State, dict[str, str]] = {}


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what the preflight asks of a Spark."""
    for each in own.seats:
        wanted = _requirements(each)
        yield _ask(own.root, wanted, wanted.ports)


@deploy("Preflight")
def apply() -> None:
    """Judge the Spark; list every error and warning with its remedy."""
    own = target()
    wanted = [_requirements(each) for each in own.seats]
    with bad_input():
        turns = own.tenants
    workers = own.peers if own.is_head else ()
    preflight(name="Fit to serve", wanted=wanted, workers=workers, turns=turns)


@operation()
def preflight(
    wanted: Sequence[Requirements], workers: Sequence[Host] = (), turns: Sequence[Tenant] = ()
) -> Generator[StringCommand]:
    """Fail with every error that is found, each with its remedy; warnings are only shown.

    Args:
        wanted: of each replica of the Spark.
        workers: the group's other Sparks, where this one is its head: all must be alike, and the
            head reports where they are not.
        turns: the replicas, where models take turns.
    """
    root = target().root
    seats = [(read(host, _ask(root, each, each.ports)), each) for each in wanted]
    survey, own = seats[0]
    there = {spark_name(each): read(each, _ask(root, own, ())) for each in workers}
    found = [*findings(survey, own, time.time(), [*there.values()], seats[1:])]
    is_plan, refused = planning() and not is_looking(), set[str | None]()
    for each, required in seats:
        # Others on demand make room for it.
        others = [one for _, one in seats if one is not required and one.load and not one.yields]
        beside = sum(engine_bytes(one.load, one.hardware) for one in others if one.load)
        memory = required.hardware, each.memory, each.kernel.handover, beside
        for finding in memory_findings(required.load, *memory) if required.load else ():
            names = " and ".join(str(one.replica) for one in others if turns)
            who = f"{required.replica}{names and f' beside {names}'}"
            named = f"{who}: {finding.found}" if seats[1:] else finding.found
            found.append(replace(finding, found=named))
            refused |= {required.replica} if finding.error else set()
        if is_plan and required.release:
            plan = plan_memory(required.load, *memory) if required.load else None
            for line in summary(required.release, each, required, plan):
                host.log_styled(plain(line), log_func=logger.info)
    total = room(own.hardware, survey.memory, survey.kernel.handover)
    turns = alone(turns, total)
    found += (finding for name, finding in unmet(turns, total) if name not in refused)
    if is_plan and turns:
        line = f"may run together: {together(turns, total)}"
        host.log_styled(plain(line), log_func=logger.info)
    name = spark_name(host)
    first = _machines.setdefault(host.state, {}).setdefault(survey.machine, name)
    if survey.machine and first != name:
        remedy = f"Take one of the two out of {target().fleet}"
        found.append(error(f"{name} is the same machine as {first}", remedy))
    unlike = [
        finding
        for peer, other in there.items()
        for finding in differences(name, survey, peer, other)
    ]
    for finding in unlike:
        differs("the Sparks of a group", "alike", finding.found)
    for finding in found:
        if finding.error:
            differs("fit to serve", "nothing in its way", finding.found)
    for finding in (*found, *unlike):
        if not finding.error:
            notice(str(finding))
    errors = [str(finding) for finding in (*found, *unlike) if finding.error]
    refusal = failing("\n".join(errors)) if errors else None
    if is_plan:
        _end_unfit(bool(errors))
    if refusal:
        yield refusal
    else:
        host.noop("preflight passed")


def _ask(root: str, own: Requirements, ports: Sequence[int]) -> Ask[Survey]:
    """Return the ask for a Spark as one replica needs it; of a group, only the head has ports."""
    images = own.release.images if own.release else ()
    return Survey.ask(root=root, ports=ports, images=images, folders=own.folders, place=own.place)


def _end_unfit(is_unfit: bool) -> None:
    """End a plan where the run would end: when all are judged, and one is unfit."""
    judged = _judged.setdefault(host.state, {})
    judged[spark_name(host)] = is_unfit
    # If pyinfra runs fewer hosts at a time than there are, some are judged only after this one.
    hosts = len(state.active_hosts)
    while len(judged) < hosts <= state.config.PARALLEL:
        time.sleep(0.05)
    if unfit := sorted(spark for spark, bad in judged.items() if bad):
        raise PyinfraError(
            f"preflight failed: {' and '.join(unfit)}. A run would end here; nothing was changed "
            "on any Spark."
        )


def _requirements(own: Target) -> Requirements:
    """Return what a seat of the current Spark requires of it."""
    release, settings = own.release, own.settings
    checkpoints = [*release.recipe.checkpoints.values()] if release else []
    locked = [own.lock.checkpoint(checkpoint) for checkpoint in checkpoints]
    elsewhere = settings.model_folders
    build = release.recipe.build if release and own.is_head else None
    return Requirements(
        hardware=own.hardware,
        settings=settings,
        release=release,
        load=own.load,
        on_demand=own.on_demand,
        yields=own.yields,
        replica=own.replica,
        head=own.ranks[0] if release and not own.is_head else None,
        weights=sum(checkpoint.size for checkpoint in locked if checkpoint),
        image=own.lock.images[image_key(release.recipe)].size if release else 0,
        build=build.disk if build else 0,
        ports=(own.port,) if release and own.is_head and own.port else (),
        group=own.is_group,
        doubts=doubts_of(own),
        folders=[
            *(release.folders.values() if release else ()),
            *(path for each in checkpoints for path in places(each.repo, each.folder, elsewhere)),
        ],
        place=own.place,
    )


def doubts_of(own: Target) -> tuple[Finding, ...]:
    """Return the warnings about the recipe that the owner has not ended by a word."""
    if own.release is None or own.replica is None or not own.is_head:
        return ()
    trusted = fleet_of(own.fleet).replicas[own.replica].trusts
    return tuple(doubts(own.release.recipe, trusted))
