"""The readings of nvidia-smi while a workload runs."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

_COMMAND = [
    *("nvidia-smi", "--query-gpu=clocks.sm,power.draw,temperature.gpu,memory.total"),
    *("--format=csv,noheader,nounits", "--loop=1"),
]


@contextmanager
def readings() -> Iterator[list[float | None]]:
    """Yield a list; when the block ends, it has the medians of MHz, W and °C of each second."""
    found: list[float | None] = []
    smi = subprocess.Popen(
        _COMMAND, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
    )
    try:
        yield found
    finally:
        smi.terminate()
        found += medians(smi.communicate()[0])


def medians(text: str) -> list[float | None]:
    """Return medians of MHz, W and °C of the GPU with the most memory; None for what is unknown.

    The engine's GPU is taken for the largest, as by sparkwright/insight/doctor/gpu.py.
    """
    rows = [[_number(field) for field in line.split(",")] for line in text.splitlines()]
    most = max((row[-1] or 0 for row in rows), default=0)
    own = [row for row in rows if (row[-1] or 0) == most and len(row) > 3]
    columns = [[value for row in own if (value := row[place]) is not None] for place in range(3)]
    return [median(column) if column else None for column in columns]


def _number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None
