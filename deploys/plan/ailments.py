"""The known ailments of an engine, held against its log and its host."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC

from deploys.plan.ailment import Ailment, Diagnosis, HostAilment
from deploys.plan.checkup import Checkup, FailedSwitch
from deploys.plan.compute_ailments import COMPUTE_AILMENTS
from deploys.plan.host_ailments import HOST_AILMENTS
from deploys.plan.memory_ailments import LIFE_AILMENTS, MEMORY_AILMENTS
from deploys.plan.network_ailments import NETWORK_AILMENTS
from deploys.plan.platform_ailments import PLATFORM_AILMENTS, ROOT_AILMENTS
from deploys.plan.progress import time_text
from deploys.plan.start_ailments import START_AILMENTS

# The most specific first: the first one that is found is the one to begin with.
LOG_AILMENTS = (
    *PLATFORM_AILMENTS,
    *START_AILMENTS,
    *COMPUTE_AILMENTS,
    *NETWORK_AILMENTS,
    *MEMORY_AILMENTS,
    *LIFE_AILMENTS,
)

# More than this many at once help nobody.
SHOWN = 3
# A traceback's line may hold a whole configuration.
_EVIDENCE = 300


def diagnose(
    checkup: Checkup, link: Sequence[Diagnosis] = (), wanted: str | None = None
) -> list[Diagnosis]:
    """Return every cause that a Spark shows, the one to begin with first.

    Args:
        link: what is wrong with the link of a pair.
        wanted: the release that the inventory asks for, empty for an idle Spark; None where that
            is not known.
    """
    return [
        *_from_readings(ROOT_AILMENTS, checkup),
        *from_log(checkup.log, checkup),
        *from_switch(checkup.failed, wanted),
        *link,
        *from_host(checkup),
    ]


def from_log(lines: Sequence[str], checkup: Checkup | None = None) -> list[Diagnosis]:
    """Return every cause that log lines show, the most specific first.

    Args:
        checkup: the host that they are of, which may show the same causes; None where it was not
            looked at.
    """
    found = []
    for ailment in LOG_AILMENTS:
        seen = ailment.sign(checkup) if ailment.sign and checkup else None
        if seen is None:
            seen = next((line.strip() for line in lines if ailment.pattern.search(line)), None)
        if seen is not None:
            found.append(_diagnosis(ailment, seen))
    return found


def from_host(checkup: Checkup) -> list[Diagnosis]:
    """Return every cause that a host itself shows, the most specific first."""
    return list(_from_readings(HOST_AILMENTS, checkup))


def from_switch(failed: FailedSwitch | None, wanted: str | None = None) -> list[Diagnosis]:
    """Return why the last switch did not come to serve; nothing where nobody asks for it any more.

    Args:
        wanted: as of `diagnose`.
    """
    if failed is None or wanted not in (None, failed.release):
        return []
    day = time_text(failed.at, "%Y-%m-%d %H:%M UTC", UTC)
    known = [
        replace(each, cause=f"{failed.release} did not come to serve on {day}. {each.cause}")
        for each in from_log(failed.log)
    ]
    all_of_it = f"`journalctl -u vllm@{failed.release} -u switch@{failed.release}` has all of it"
    cause = f"The last switch, to {failed.release} on {day}, failed"
    return known or [Diagnosis("switch-failed", cause, failed.reason, all_of_it)]


def hint(lines: Iterable[str]) -> str | None:
    """Return cause and remedy of the first known cause in a failed start's log; None without."""
    found = from_log(list(lines))
    return f"{found[0].cause}. {found[0].remedy}" if found else None


def _from_readings(ailments: Iterable[HostAilment], checkup: Checkup) -> Iterator[Diagnosis]:
    for ailment in ailments:
        if (seen := ailment.sign(checkup)) is not None:
            yield _diagnosis(ailment, seen)


def _diagnosis(ailment: Ailment, evidence: str) -> Diagnosis:
    return Diagnosis(ailment.name, ailment.cause, evidence[:_EVIDENCE], ailment.remedy)
