"""The GPU, by nvidia-smi."""

from typing import Any

from host.state.readers import UnknownError, once, run

_FIELDS = {
    "name": "name",
    "driver_version": "driver",
    "memory.total": "memory_total",
    "memory.used": "memory_used",
    "memory.free": "memory_free",
    "clocks.sm": "clock",
    "power.draw": "power",
    "temperature.gpu": "temperature",
    "utilization.gpu": "busy",
}
# An older driver has another name for it, or none, and answers nothing where one is unknown.
_REASONS = "clocks_event_reasons.active"
_MIB = ("memory_total", "memory_used", "memory_free")


@once
def read(root: str = "") -> dict[str, Any]:
    """Return the GPU with the most memory, which CUDA takes by default, and nvidia-smi's words.

    `gpu` is None where it shows none: `said` then has what it says instead, "" where it is absent.
    Its readings are MHz, W, °C, per cent, bytes, and bits; None for those that it lacks.
    """
    try:
        found, said = _gpus((*_FIELDS, _REASONS))
        if not found:
            found, said = _gpus(tuple(_FIELDS))
    except UnknownError as error:
        # It hangs after a fault of the driver: the rest of the Spark can be read.
        return {"gpu": None, "said": str(error)}
    best = max(found, key=lambda gpu: gpu["memory_total"] or 0, default=None)
    return {"gpu": best, "said": "" if best else said}


def _gpus(fields: tuple[str, ...]) -> tuple[list[dict[str, Any]], str]:
    done = run("nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits")
    rows = [[*map(str.strip, line.split(","))] for line in done.stdout.splitlines()]
    # Without a driver it prints a sentence.
    gpus = [dict(zip(fields, row, strict=True)) for row in rows if len(row) == len(fields)]
    said = " ".join(f"{done.stdout} {done.stderr}".split())
    return [_gpu(gpu) for gpu in gpus] if done.returncode == 0 else [], said[:500]


def _gpu(values: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {name: number(values[field]) for field, name in _FIELDS.items()}
    found |= {"name": values["name"], "driver": values["driver_version"]}
    found |= {name: None if found[name] is None else int(found[name]) << 20 for name in _MIB}
    reasons = values.get(_REASONS, "")
    return found | {"reasons": int(reasons, 16) if reasons.startswith("0x") else None}


def number(text: str) -> float | None:
    """Return a reading; None for one that the GPU lacks."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if abs(found) < 1e12 else None
