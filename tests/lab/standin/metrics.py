"""The counters of /metrics, in the families that were captured from vLLM."""

from collections.abc import Iterator
from threading import Lock

from standin import CAPTURED


class Metrics:
    """All families, zero at first; the model's name stands in the labels."""

    def __init__(self, model: str) -> None:
        self._lock = Lock()
        self._families: list[tuple[str, str, list[str]]] = []
        self._values: dict[str, float] = {}
        self._buckets: dict[str, list[float]] = {}
        for family in CAPTURED["metrics"]:
            name, kind = family["name"], family["kind"]
            labels = [text.replace('"tiny"', f'"{model}"') for text in family["labels"]]
            if kind == "histogram":
                (own,) = labels
                self._buckets[name] = [float(bound) for bound in family["buckets"]]
                keys = [
                    *(f'{name}_bucket{{{own},le="{bound}"}}' for bound in family["buckets"]),
                    *(f"{name}_{part}{{{own}}}" for part in ("count", "sum")),
                ]
            else:
                keys = [f"{name}{{{text}}}" for text in labels]
            self._families.append((name, kind, keys))
            self._values |= dict.fromkeys(keys, 0.0)
        for name in ("cache_config_info", "engine_sleep_state"):
            self.set(name, 1)

    def set(self, name: str, value: float) -> None:
        """Set a gauge; where there are several, the first."""
        with self._lock:
            self._values[self._keys(name)[0]] = value

    def add(self, name: str, value: float, label: str = "") -> None:
        """Add to a counter; where there are several, to the one with this label."""
        with self._lock:
            self._values[next(key for key in self._keys(name) if label in key)] += value

    def observe(self, name: str, value: float) -> None:
        with self._lock:
            *buckets, count, total = self._keys(name)
            for key, bound in zip(buckets, self._buckets[f"vllm:{name}"], strict=True):
                self._values[key] += value <= bound
            self._values[count] += 1
            self._values[total] += value

    def text(self) -> str:
        with self._lock:
            return "\n".join([*self._lines(), ""])

    def _keys(self, name: str) -> list[str]:
        return next(keys for family, _, keys in self._families if family == f"vllm:{name}")

    def _lines(self) -> Iterator[str]:
        for name, kind, keys in self._families:
            yield f"# TYPE {name} {kind}"
            yield from (f"{key} {float(self._values[key])}" for key in keys)
