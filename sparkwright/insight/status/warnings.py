"""The warnings about a Spark's status."""

from collections.abc import Iterator

from sparkwright.common.command_line import next_line
from sparkwright.common.hardware import GIB
from sparkwright.insight.status.status import PATIENCE, Reading, SparkRow
from sparkwright.plan.causes.thresholds import DISK_FULL, EARLYOOM, KV_FULL, MEMORY_LOW


def warnings(row: SparkRow) -> Iterator[str]:
    """Yield what an owner should look at, a sentence each."""
    reading = row.reading
    if row.slow:
        yield f"it took the login, but gave no answer within {PATIENCE} s"
        return
    if reading is None:
        yield row.silent
        return
    yield from _of_release(row, reading)
    yield from _of_engine(row, reading)
    if reading.gpu and (slow := reading.gpu.held_back):
        yield f"the GPU is held back: {slow}; {next_line('doctor')} tells what to do"
    if 100 * reading.memory_available < MEMORY_LOW * reading.memory_total:
        left = f"{reading.memory_available / GIB:.1f} GiB"
        yield f"{left} of memory are left; earlyoom ends the engine at {EARLYOOM} %"
    if reading.disk_free < DISK_FULL:
        free = f"{reading.disk_free / GIB:.1f} GiB"
        yield f"{free} are free on the disk; {next_line('clean')} makes room"


def _of_release(row: SparkRow, reading: Reading) -> Iterator[str]:
    wanted = row.recipe
    for release in reading.switches:
        yield f"a switch to {release} is under way"
    if reading.release is None:
        if wanted and not reading.switches:
            yield f"{wanted} was not set up yet; {next_line('apply')} does it"
        return
    runs = reading.unit is not None and not reading.unit.ended
    if wanted and reading.recipe != wanted:
        current = reading.recipe or reading.release
        yield (
            f"{current} is set up; the inventory asks for {wanted}; {next_line('apply')} switches "
            "to it"
        )
    elif not wanted and runs:
        yield f"{reading.release} runs, but the inventory assigns no replica to this Spark"


def _of_engine(row: SparkRow, reading: Reading) -> Iterator[str]:
    for release in reading.others:
        if not reading.switches:
            yield f"vllm@{release} runs as well"
    unit, load = reading.unit, reading.load
    if row.recipe is None or reading.release is None:
        return
    if unit is None or unit.active != "active":
        status = f" ({unit.status})" if unit and unit.status else ""
        yield f"the engine is {unit.active if unit else 'not there'}{status}"
    elif row.rank == 0 and load is None:
        yield "the engine does not answer /metrics"
    if unit and unit.restarts:
        yield f"the engine was started again {unit.restarts} times; {next_line('doctor')} tells why"
    if row.rank == 0 and reading.door != "active":
        yield f"the door is {reading.door}: clients get no answer; systemctl status {row.door}"
    if reading.held:
        yield f"the door holds {reading.held} requests until an engine serves"
    if load and load.kv_usage and load.kv_usage > KV_FULL and load.waiting:
        yield f"the KV cache is full, and {load.waiting} requests wait"
