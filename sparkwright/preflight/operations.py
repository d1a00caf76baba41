"""Judge a Spark before anything on it is changed."""

import time
from collections.abc import Generator, Sequence

from pyinfra import host, logger, state
from pyinfra.api import Host, State, StringCommand, operation
from pyinfra.api.exceptions import PyinfraError

from sparkwright.common.operations import (
    differs,
    failing,
    is_dry_run,
    is_looking,
    is_surveying,
    notice,
    planning,
    spark_name,
)
from sparkwright.common.terminal import plain
from sparkwright.memory.check import memory_findings, memory_plan
from sparkwright.memory.plan import Load
from sparkwright.preflight.facts import HostSurvey
from sparkwright.preflight.pair import differences
from sparkwright.preflight.preflight import Requirements, findings
from sparkwright.preflight.summary import Intent, summary

# By run and Spark: whether it was found unfit.
_judged: dict[State, dict[str, bool]] = {}


@operation()
def preflight(
    wanted: Requirements,
    root: str,
    images: Sequence[str],
    folders: Sequence[str],
    worker: Host | None = None,
    load: Load | None = None,
    intent: Intent | None = None,
) -> Generator[StringCommand, None, None]:
    """Fail with every error that is found, each with its remedy; warnings are only shown.

    Args:
        wanted: the requirements of what this Spark serves.
        root: the folder for weights and releases.
        images: names and digests of the image that will run; none on an idle Spark.
        folders: the checkpoint folders under `root` that count as fetched already.
        worker: the other Spark, where this one is the head of a pair: they must be alike, and the
            head reports where they are not.
        load: what must fit into its memory; None on an idle Spark.
        intent: what it is to serve, which a plan shows; None on an idle Spark.
    """
    options = {
        "root": root,
        "ports": list(wanted.ports),
        "images": list(images),
        "folders": list(folders),
    }
    survey = host.get_fact(HostSurvey, **options)
    now = time.time()
    other = worker.get_fact(HostSurvey, **options) if worker else None
    results = findings(survey, wanted, now, other)
    if load:
        results += memory_findings(load, wanted.hardware, survey)
    if intent and planning() and not (is_looking() or is_surveying()):
        memory = memory_plan(load, wanted.hardware, survey) if load else None
        for line in summary(intent, survey, wanted, memory):
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
    if is_dry_run() and planning() and not (is_looking() or is_surveying()):
        _end_unfit(bool(errors))
    if refusal:
        yield refusal
    else:
        host.noop("preflight passed")


def _end_unfit(is_unfit: bool) -> None:
    """End a dry run where the real one would end: when all are judged, and one is unfit.

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
            f"preflight failed: {' and '.join(unfit)}. A run would end here, as this dry run "
            "does; nothing was changed."
        )
