"""Judge a Spark before anything on it is changed."""

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyinfra import host, logger, state
from pyinfra.api import Host, State, StringCommand, operation
from pyinfra.api.exceptions import PyinfraError

from sparkwright.common.errors import Finding, error
from sparkwright.common.operations import (
    differs,
    failing,
    foresee,
    is_looking,
    is_surveying,
    notice,
    planning,
    spark_name,
)
from sparkwright.common.terminal import plain
from sparkwright.host.survey import Survey
from sparkwright.memory.check import memory_findings, memory_plan
from sparkwright.memory.plan import Load
from sparkwright.memory.sharing import engine_bytes, sum_findings
from sparkwright.preflight.facts import HostSurvey
from sparkwright.preflight.pair import differences
from sparkwright.preflight.preflight import Requirements, findings
from sparkwright.preflight.summary import Intent, summary
from sparkwright.run.target import target

# By run and Spark: whether it was found unfit.
_judged: dict[State, dict[str, bool]] = {}
# By run and machine: the first of its names.
_machines: dict[State, dict[str, str]] = {}


@dataclass(frozen=True)
class Needs:
    """What one replica of a Spark needs of it; the attributes are arguments of `preflight`."""

    wanted: Requirements
    images: Sequence[str]
    folders: Sequence[str]
    load: Load | None
    intent: Intent | None
    place: str = ""


@operation()
def preflight(
    wanted: Requirements,
    root: str,
    images: Sequence[str],
    folders: Sequence[str],
    worker: Host | None = None,
    load: Load | None = None,
    intent: Intent | None = None,
    beside: Needs | None = None,
    place: str = "",
) -> Generator[StringCommand, None, None]:
    """Fail with every error that is found, each with its remedy; warnings are only shown.

    Args:
        wanted: the requirements of what this Spark serves.
        images: names and digests of the image that will run; none on an idle Spark.
        folders: the checkpoint folders, under `root` or anywhere, that count as fetched already.
        worker: the other Spark, where this one is the head of a pair: they must be alike, and the
            head reports where they are not.
        load: what must fit into its memory; None on an idle Spark.
        intent: what it is to serve, which a plan shows; None on an idle Spark.
        beside: the needs of the Spark's second replica; None without one.
        place: the folder of the seat.
    """
    seat = Needs(wanted, images, folders, load, intent, place)
    foresee(
        *([lambda: worker.get_fact(HostSurvey, **_asked(root, seat))] if worker else []),
        *([lambda: host.get_fact(HostSurvey, **_asked(root, beside))] if beside else []),
    )
    survey = host.get_fact(HostSurvey, **_asked(root, seat))
    now = time.time()
    other = worker.get_fact(HostSurvey, **_asked(root, seat)) if worker else None
    seats = [(survey, seat)]
    if beside:
        seats.append((host.get_fact(HostSurvey, **_asked(root, beside)), beside))
    second = (seats[1][0], beside.wanted) if beside else None
    results = findings(survey, wanted, now, other, second)
    results += [*_memory_findings(seats), *_twice(survey)]
    if planning() and not (is_looking() or is_surveying()):
        for line in _summaries(seats):
            host.log_styled(plain(line), log_func=logger.info)
    unlike = (
        differences(spark_name(host), survey, spark_name(worker), other) if worker and other else []
    )
    for finding in unlike:
        differs("the two Sparks", "alike", finding.found)
    for finding in results:
        if finding.error:
            differs("fit to serve", "nothing in its way", finding.found)
    results += unlike
    errors = [finding for finding in results if finding.error]
    for finding in results:
        if not finding.error:
            notice(str(finding))
    refusal = failing("\n".join(map(str, errors))) if errors else None
    if planning() and not (is_looking() or is_surveying()):
        _end_unfit(bool(errors))
    if refusal:
        yield refusal
    else:
        host.noop("preflight passed")


def _asked(root: str, own: Needs) -> dict[str, Any]:
    """Return the arguments of the survey for one replica."""
    return {
        "root": root,
        "ports": list(own.wanted.ports),
        "images": list(own.images),
        "folders": list(own.folders),
        "place": own.place,
    }


def _twice(survey: Survey) -> Iterator[Finding]:
    """Yield the finding that another Spark of this run is the same machine."""
    own = spark_name(host)
    first = _machines.setdefault(host.state, {}).setdefault(survey.machine, own)
    if survey.machine and first != own:
        yield error(
            f"{own} is the same machine as {first}",
            f"Take one of the two out of {target().fleet}",
        )


def _memory_findings(seats: Sequence[tuple[Survey, Needs]]) -> Iterator[Finding]:
    """Yield the findings about the memory of a Spark, by the sum of its engines."""
    for number, (survey, own) in enumerate(seats):
        if own.load is None:
            continue
        found = memory_findings(own.load, own.wanted.hardware, survey, _others(seats, number))
        for finding in found:
            named = f"{own.intent.replica}: {finding.found}" if own.intent else finding.found
            yield replace(finding, found=named) if len(seats) > 1 else finding
    loads = [own.load for _, own in seats if own.load]
    if len(loads) > 1:
        yield from sum_findings(loads, seats[0][1].wanted.hardware, seats[0][0])


def _summaries(seats: Sequence[tuple[Survey, Needs]]) -> Iterator[str]:
    for number, (survey, own) in enumerate(seats):
        if own.intent:
            hardware, others = own.wanted.hardware, _others(seats, number)
            memory = memory_plan(own.load, hardware, survey, others) if own.load else None
            yield from summary(own.intent, survey, own.wanted, memory)


def _others(seats: Sequence[tuple[Survey, Needs]], number: int) -> int:
    """Return the bytes of the engines beside one."""
    others = [own for place, (_, own) in enumerate(seats) if place != number]
    return sum(engine_bytes(own.load, own.wanted.hardware) or 0 for own in others if own.load)


def _end_unfit(is_unfit: bool) -> None:
    """End a plan where the run would end: when all are judged, and one is unfit.

    Raises:
        PyinfraError: the run ends.
    """
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
