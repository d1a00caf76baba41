"""The doctor's diagnoses: the known causes, held against an engine's log and its host."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC

from sparkwright.common.progress import time_text
from sparkwright.insight.doctor.checkup import Checkup, FailedSwitch
from sparkwright.insight.doctor.signs import signs
from sparkwright.plan.causes.log_causes import Diagnosis, from_log, in_order


def diagnose(
    checkup: Checkup, link: Sequence[Diagnosis] = (), wanted: str | None = None
) -> list[Diagnosis]:
    """Return every cause that a Spark and its link show, the one to begin with first.

    Args:
        wanted: the release that the inventory asks for, empty for an idle Spark; None if unknown.
    """
    found = from_log(checkup.log, signs(checkup), checkup.sound)
    return in_order([*found, *from_switch(checkup.failed, wanted), *link])


def from_switch(failed: FailedSwitch | None, wanted: str | None = None) -> list[Diagnosis]:
    """Return why the release of the last switch does not serve; nothing once it is not wanted."""
    if failed is None or wanted not in (None, failed.release):
        return []
    day = time_text(failed.at, "%Y-%m-%d %H:%M UTC", UTC)
    known = [
        replace(each, cause=f"{failed.release} did not come to serve on {day}. {each.cause}")
        for each in from_log(failed.log)
        if not each.guess
    ]
    cause = f"The last switch, to {failed.release} on {day}, failed"
    remedy = f"`journalctl -u vllm@{failed.release} -u switch@{failed.release}` has all of it"
    return known or [Diagnosis("switch-failed", cause, failed.reason, remedy)]
