"""Judge a Spark before anything on it is changed."""

import time
from collections.abc import Generator, Sequence

from pyinfra import host
from pyinfra.api import StringCommand, operation

from deploys.facts.survey import HostSurvey
from deploys.operations.messages import failing, notice, planning
from deploys.plan.preflight import Requirements, findings


@operation()
def preflight(
    wanted: Requirements, root: str, image: str | None, folders: Sequence[str]
) -> Generator[StringCommand, None, None]:
    """Fail with every error that is found, each with its remedy; warnings are only shown.

    Args:
        wanted: what this Spark must be.
        root: the folder for weights and releases.
        image: `repository@digest` that will run; None on an idle Spark.
        folders: the checkpoint folders under `root` that count as fetched already.
    """
    survey = host.get_fact(
        HostSurvey, root=root, port=wanted.port, image=image, folders=list(folders)
    )
    found = findings(survey, wanted, time.time())
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
