"""The doctor's report: lines for people."""

from collections.abc import Iterator, Sequence

from sparkwright.common.command_line import next_line
from sparkwright.common.hardware import GIB
from sparkwright.engine.phases import phase
from sparkwright.insight.doctor.checkup import Checkup
from sparkwright.network.fabric.state import FabricState
from sparkwright.plan.causes.log_causes import Diagnosis, from_log, table

# Causes that are shown in full; of the others only the names.
SHOWN = 3
# Last lines of a log that shows no known cause.
_LAST = 5
# Words of error lines: Python's, vLLM's, our supervisor's.
_ERROR = ("Error", "ERROR", "error:", "CRITICAL", "engine ended", "failed")


def report(
    checkup: Checkup, diagnoses: Sequence[Diagnosis], recipe: str | None
) -> Iterator[tuple[str, str]]:
    """Yield the lines for people, each with its color; an idle Spark has no recipe."""
    yield f"looked at {_looked_at(checkup)}", "white"
    for each in diagnoses[:SHOWN]:
        yield f"{'perhaps' if each.guess else 'cause'}: {each.cause} [{each.name}]", "red"
        yield f"  seen: {each.evidence}", "yellow"
        yield f"  remedy: {each.remedy}.", "green"
    if len(diagnoses) > SHOWN:
        yield f"and also: {', '.join(each.name for each in diagnoses[SHOWN:])}", "yellow"
    if fails(checkup) and not from_log(checkup.log):
        yield "its log shows no known cause; the last lines:", "red"
        for line in _last_words(checkup.log):
            yield f"  {line}", "yellow"
        yield f"  all of them: journalctl -u vllm@{checkup.release}", "yellow"
    elif not diagnoses:
        yield f"no trouble found: {_state(checkup, recipe)}", "green"


def probed(name: str, *evidence: str) -> Diagnosis:
    """Return the diagnosis of a cause that a probe of the Spark has shown."""
    cause = next(each for each in table("probes") if each.name == name)
    return cause.diagnosis("; ".join(evidence))


def state_of_link(spark: str, state: FabricState) -> Iterator[str]:
    """Yield the states of a Spark's interfaces to the other one of its pair."""
    for name, netdev in state.netdevs.items():
        yield f"{spark} {name}: {'link' if netdev.carrier else 'no link'}, MTU {netdev.mtu}"


def fails(checkup: Checkup) -> bool:
    """Tell whether the engine of a Spark that should serve has ended, or started again."""
    unit = checkup.unit
    return checkup.release is not None and (unit is None or unit.ended or unit.restarts > 0)


def _last_words(log: Sequence[str]) -> Sequence[str]:
    errors = [line for line in log if any(word in line for word in _ERROR)]
    return (errors or log)[-_LAST:] or ["(none)"]


def _state(checkup: Checkup, recipe: str | None) -> str:
    unit = checkup.unit
    if checkup.release is None and recipe:
        return f"{recipe} was not set up yet: `{next_line('apply')}` does it"
    if checkup.release is None:
        return "this Spark is idle, nothing is to serve on it"
    if unit is None:
        return f"vllm@{checkup.release} is absent"
    status = phase(checkup.log) if unit.starting else unit.status
    return f"vllm@{checkup.release} is {unit.active}{f' ({status})' if status else ''}"


def _looked_at(checkup: Checkup) -> str:
    _, free, available = checkup.memory
    disks = ", ".join(f"{size / GIB:.0f} GiB free" for size in checkup.free.values()) or "not told"
    gpu = "not told"
    if checkup.gpu and checkup.gpu.work:
        gpu = "{:.0f} MHz, {:.0f} W, {:.0f} % busy".format(*checkup.gpu.work)
    return (
        f"{len(checkup.log)} lines of its journal, memory ({free / GIB:.1f} GiB free, "
        f"{available / GIB:.1f} available), disks ({disks}), "
        f"Docker {checkup.docker or '(no answer)'}, GPU ({gpu}), clock, port"
    )
