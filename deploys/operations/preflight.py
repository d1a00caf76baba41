"""Judge a Spark before anything on it is changed."""

import time
from collections.abc import Generator, Sequence

from pyinfra import host
from pyinfra.api import Host, StringCommand, operation

from deploys.facts.survey import HostSurvey
from deploys.operations.differences import differs
from deploys.operations.messages import failing, notice, planning
from deploys.plan.memory import Load
from deploys.plan.memory_check import memory_findings
from deploys.plan.pair import differences
from deploys.plan.preflight import Finding, Requirements, findings


@operation()
def preflight(
    wanted: Requirements,
    root: str,
    images: Sequence[str],
    folders: Sequence[str],
    worker: Host | None = None,
    load: Load | None = None,
) -> Generator[StringCommand, None, None]:
    """Fail with every error that is found, each with its remedy; warnings are only shown.

    Args:
        wanted: what this Spark must be.
        root: the folder for weights and releases.
        images: names and digests of the image that will run; none on an idle Spark.
        folders: the checkpoint folders under `root` that count as fetched already.
        worker: the other Spark, where this one is the head of a pair: they must be alike, and it
            is the head that says where they are not.
        load: what must fit into its memory; None on an idle Spark.
    """
    look = {
        "root": root,
        "ports": list(wanted.ports),
        "images": list(images),
        "folders": list(folders),
    }
    survey = host.get_fact(HostSurvey, **look)
    now = time.time()
    other = worker.get_fact(HostSurvey, **look) if worker else None
    found = findings(survey, wanted, now, other)
    if load:
        found += memory_findings(load, wanted.hardware, survey)
    apart: list[Finding] = []
    if worker and other:
        apart = differences(host.data.spark, survey, worker.data.spark, other)
        for finding in apart:
            differs("the two Sparks", "alike", finding.found)
    for finding in found:
        if finding.error:
            differs("fit to serve", "nothing in its way", finding.found)
    found += apart
    errors = [finding for finding in found if finding.error]
    for finding in found:
        if finding.error and planning():
            notice(str(finding), "red")
        elif not finding.error:
            notice(str(finding))
    if errors:
        yield failing("\n".join(str(error) for error in errors))
    else:
        host.noop("the Spark is fit for what it is to serve")
