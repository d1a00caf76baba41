"""Judge a Spark before anything on it is changed."""

import time
from collections.abc import Generator, Sequence

from pyinfra import host, logger, state
from pyinfra.api import StringCommand, operation
from pyinfra.api.state import StateStage

from deploys.facts.survey import HostSurvey
from deploys.operations.failure import failing
from deploys.plan.preflight import Finding, Requirements, findings


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
    _show(found)
    errors = [finding for finding in found if finding.error]
    if errors:
        yield failing("\n".join(str(error) for error in errors))
    else:
        host.noop("the Spark is fit for what it is to serve")


def _show(found: list[Finding]) -> None:
    """Print findings once: errors of the execution come from the failing command itself."""
    preparing = state.current_stage == StateStage.Prepare
    shown_before = state.check_for_changes and not preparing
    for finding in found:
        if preparing or not (finding.error or shown_before):
            host.log_styled(
                str(finding), fg="red" if finding.error else "yellow", log_func=logger.warning
            )
