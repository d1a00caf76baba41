"""The readings of nvidia-smi, once a second."""

import subprocess
import time
from threading import Event, Thread

QUERY = "clocks.sm,power.draw,temperature.gpu,memory.total"
INTERVAL = 1.0


def sample(text: str) -> list[float | None]:
    """Return MHz, W and °C of the GPU with the most memory; None where it does not tell.

    Args:
        text: a line for each GPU. The engine's is taken for the largest, as by the preflight and
            the status (sparkwright/doctor/gpu.py): another one may be there for a display.
    """
    gpus = [[_number(field) for field in line.split(",")] for line in text.strip().splitlines()]
    if not gpus:
        return [None] * 3
    return max(gpus, key=lambda gpu: gpu[-1] or 0)[:-1]


class Gpu:
    """Samples the largest GPU as long as it is entered.

    Args:
        began: seconds on the monotonic clock from which times are counted.

    Attributes:
        samples: [seconds, MHz, W, °C], each.
    """

    def __init__(self, began: float) -> None:
        self.samples: list[list[float | None]] = []
        self._began = began
        self._ended = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Gpu":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        command = ["nvidia-smi", f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"]
        while not self._ended.wait(INTERVAL):
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, check=True, timeout=10
                )
            except (OSError, subprocess.SubprocessError):
                continue
            now = round(time.monotonic() - self._began, 2)
            self.samples.append([now, *sample(done.stdout)])


def _number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:
        return None
