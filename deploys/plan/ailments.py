"""What ails an engine: all known causes, held against its log and its host."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from deploys.plan.ailment import Diagnosis
from deploys.plan.checkup import Checkup, FailedSwitch
from deploys.plan.host_ailments import HOST_AILMENTS
from deploys.plan.memory_ailments import LIFE_AILMENTS, MEMORY_AILMENTS
from deploys.plan.start_ailments import START_AILMENTS

# The most specific first: the first one that is found is the one to begin with.
LOG_AILMENTS = START_AILMENTS + MEMORY_AILMENTS + LIFE_AILMENTS

# More than this many at once help nobody.
SHOWN = 3
# A traceback's line may hold a whole configuration.
_EVIDENCE = 300


def from_log(lines: Sequence[str]) -> list[Diagnosis]:
    """Return every cause that log lines show, the most specific first."""
    found = []
    for ailment in LOG_AILMENTS:
        line = next((line for line in lines if ailment.pattern.search(line)), None)
        if line is not None:
            evidence = line.strip()[:_EVIDENCE]
            found.append(Diagnosis(ailment.name, ailment.cause, evidence, ailment.remedy))
    return found


def from_host(checkup: Checkup) -> list[Diagnosis]:
    """Return every cause that a host itself shows, the most specific first."""
    return [
        Diagnosis(ailment.name, ailment.cause, sign, ailment.remedy)
        for ailment in HOST_AILMENTS
        if (sign := ailment.sign(checkup)) is not None
    ]


def from_switch(failed: FailedSwitch | None) -> list[Diagnosis]:
    """Return why the last switch did not come to serve; nothing where it did."""
    if failed is None:
        return []
    known = [
        replace(each, cause=f"{failed.release} did not come to serve. {each.cause}")
        for each in from_log(failed.log)
    ]
    all_of_it = f"`journalctl -u vllm@{failed.release} -u switch@{failed.release}` has all of it"
    cause = f"The last switch, to {failed.release}, failed"
    return known or [Diagnosis("switch-failed", cause, failed.reason, all_of_it)]


def hint(lines: Iterable[str]) -> str | None:
    """Return cause and remedy of the first known cause in a failed start's log; None without."""
    found = from_log(list(lines))
    return f"{found[0].cause}. {found[0].remedy}" if found else None
