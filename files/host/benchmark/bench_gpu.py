"""The readings of nvidia-smi while a workload runs."""

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from statistics import median
from threading import Event, Thread

_QUERY = "clocks.sm,power.draw,temperature.gpu,memory.total"
_COMMAND = ["nvidia-smi", f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"]
INTERVAL = 1.0

# MHz, W and °C; None where nvidia-smi does not tell.
Reading = Sequence[float | None]


def sample(text: str) -> Reading:
    """Return the reading of the GPU with the most memory, as sparkwright/doctor/gpu.py does."""
    gpus = [[_number(field) for field in line.split(",")] for line in text.strip().splitlines()]
    return max(gpus, key=lambda gpu: gpu[-1] or 0)[:-1] if gpus else [None] * 3


@contextmanager
def readings() -> Iterator[list[Reading]]:
    """Yield a list that gets a reading each second, until the end of the block."""
    found: list[Reading] = []
    ended = Event()

    def watch() -> None:
        while not ended.wait(INTERVAL):
            with suppress(OSError, subprocess.SubprocessError):
                done = subprocess.run(_COMMAND, capture_output=True, text=True, timeout=10)
                found.append(sample(done.stdout))

    thread = Thread(target=watch, daemon=True)
    thread.start()
    yield found
    ended.set()
    thread.join()


def medians(found: Sequence[Reading]) -> list[float | None]:
    """Return the medians of readings; None for what none of them tells."""
    columns = ([each[place] for each in found if each[place] is not None] for place in range(3))
    return [median(column) if column else None for column in columns]  # type: ignore[type-var]


def _number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None
