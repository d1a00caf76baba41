"""The causes that an engine's log names."""

from collections.abc import Mapping, Sequence

from sparkwright.causes.cause import Diagnosis
from sparkwright.causes.compute_causes import COMPUTE_CAUSES
from sparkwright.causes.memory_causes import MEMORY_CAUSES
from sparkwright.causes.network_causes import NETWORK_CAUSES
from sparkwright.causes.platform_causes import PLATFORM_CAUSES
from sparkwright.causes.start_causes import START_CAUSES

# The most specific first: the first one that is found is the one to begin with.
LOG_CAUSES = (
    *PLATFORM_CAUSES,
    *START_CAUSES,
    *COMPUTE_CAUSES,
    *NETWORK_CAUSES,
    *MEMORY_CAUSES,
)


def from_log(
    lines: Sequence[str], shown: Mapping[str, str | None] | None = None
) -> list[Diagnosis]:
    """Return every cause that log lines show, the most specific first.

    Args:
        shown: the evidence, if any, by which the host itself shows a cause: name -> evidence.
    """
    shown = shown or {}
    seen = ((cause, shown.get(cause.name) or cause.evidence(lines)) for cause in LOG_CAUSES)
    return [cause.diagnosis(evidence) for cause, evidence in seen if evidence is not None]


def hint(lines: Sequence[str]) -> str | None:
    """Return cause and remedy of the first known cause in a failed start's log; None without."""
    first = next(iter(from_log(lines)), None)
    return f"{first.cause}. {first.remedy}" if first else None
