"""The questions of a benchmark to the engine, and the readings of its GPU meanwhile."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from subprocess import DEVNULL, PIPE, Popen
from typing import Any, NoReturn

from host.common.progress import JobError
from host.state.engine_api import ask, samples
from host.state.gpu import number

# A long prompt is counted in less than a second; the first answer after a start may take a minute.
_PATIENCE = 300
_BUSY = ("num_requests_running", "num_requests_waiting")
_SMI = [
    *("nvidia-smi", "--query-gpu=clocks.sm,power.draw,temperature.gpu,memory.total"),
    *("--format=csv,noheader,nounits", "--loop=1"),
]


def metric(text: str, *names: str) -> int:
    """Return the sum of metrics in what /metrics says, over all labels; 0 where there is none."""
    return int(sum(value for _, _, value in samples(text, names)))


class MeasuredEngine:
    """An engine that serves, by the folder of its seat, its release, and a name that it serves."""

    def __init__(self, place: str, release: str, model: str) -> None:
        self._engine = place, release
        self._model = model
        self._unit = f"vllm@{release}"

    def preemptions(self) -> int:
        """Return how many requests lost their place in the KV cache since the engine's start."""
        return metric(self._metrics(), "num_preemptions_total")

    def others(self) -> int:
        """Return how many requests of others run or wait; a supervisor's probe is soon over."""
        looks = []
        for _ in range(3):
            looks.append(metric(self._metrics(), *_BUSY))
            time.sleep(0.5)
        return min(looks)

    def context(self) -> int:
        """Return the tokens that a request may have in all."""
        models = self._field("data", "/v1/models")
        return int(next(each["max_model_len"] for each in models if each["id"] == self._model))

    def tokens(self, text: str) -> int:
        """Return the length of a text."""
        body = {"model": self._model, "prompt": text, "add_special_tokens": False}
        return int(self._field("count", "/tokenize", body))

    def _metrics(self) -> str:
        said = ask(*self._engine, "/metrics", patience=_PATIENCE)
        return said if "vllm:" in said else self._give_up("/metrics", said)

    def _field(self, name: str, path: str, body: object = None) -> Any:
        said = ask(*self._engine, path, body, _PATIENCE)
        try:
            return json.loads(said)[name]
        except (ValueError, KeyError, TypeError, RecursionError):
            self._give_up(path, said)

    def _give_up(self, path: str, said: str) -> NoReturn:
        raise JobError(
            f"The engine does not answer {path} ({' '.join(said.split())[:300]}): look with "
            f"`journalctl -u {self._unit}`, then run again."
        )


@contextmanager
def readings() -> Iterator[list[float | None]]:
    """Yield a list; when the block ends, it has the medians of MHz, W and °C of each second."""
    found: list[float | None] = []
    smi = Popen(_SMI, stdout=PIPE, stderr=DEVNULL, encoding="utf-8")
    try:
        yield found
    finally:
        smi.terminate()
        found += medians(smi.communicate()[0])


def medians(text: str) -> list[float | None]:
    """Return medians of MHz, W and °C of the GPU with the most memory, which the engine has."""
    rows = [[number(field) for field in line.split(",")] for line in text.splitlines()]
    most = max((row[-1] or 0 for row in rows), default=0)
    own = [row for row in rows if (row[-1] or 0) == most and len(row) > 3]
    columns = [[value for row in own if (value := row[place]) is not None] for place in range(3)]
    return [median(column) if column else None for column in columns]
