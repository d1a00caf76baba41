"""Seconds of engines from the death of the one before to their first token, in turn.

    python -m tests.gpu.starts OUT LIMIT TURNS LINE...

A line is a shell file that ends in `exec vllm serve ... --uds "$SOCKET"`. One that sets
SPARKWRIGHT_STANDBY is started while the engine before it serves, and told at its death. With ROUNDS
in the environment, each engine's throughput is measured, too.
"""

import json
import os
import sys
import time
from pathlib import Path

import pynvml
import sparkwright_standby as standby

from tests.gpu import throughput
from tests.gpu.engine import Engine

FREE = 2 << 30  # bytes of the GPU that are in use where no engine is


def gpu() -> tuple[int, list[int]]:
    """Return the bytes in use on the GPU, and which processes compute there."""
    device = pynvml.nvmlDeviceGetHandleByIndex(0)
    processes = pynvml.nvmlDeviceGetComputeRunningProcesses(device)
    return pynvml.nvmlDeviceGetMemoryInfo(device).used, [each.pid for each in processes]


def prepare(script: Path, log: Path, limit: float) -> tuple[Engine, dict[str, object]]:
    """Start a standby; return it when it waits, with what it holds."""
    standby.WAITING.parent.mkdir(parents=True, exist_ok=True)
    standby.ALIVE.parent.mkdir(parents=True, exist_ok=True)
    standby.GO.unlink(missing_ok=True)
    standby.ALIVE.touch()
    before = gpu()
    engine = Engine(script, str(log.with_suffix(".sock")), log, time.monotonic())
    while not standby.WAITING.exists():
        if time.monotonic() - engine.begin > limit:
            raise SystemExit(f"The standby does not wait: see {log}.")
        time.sleep(0.1)
    took = time.monotonic() - engine.begin
    time.sleep(5)  # what goes on beside the waiting process
    after = gpu()
    return engine, {
        "standby prepared in": round(took, 1),
        "standby MiB": engine.processes(),
        "standby bytes of GPU": after[0] - before[0],
        "standby on GPU": sorted(set(after[1]) - set(before[1])),
    }


def start(
    script: Path, log: Path, last: Engine | None, limit: float
) -> tuple[Engine, dict[str, object]]:
    """Kill the last engine and have the next one answer; return it with its figures."""
    waits = "SPARKWRIGHT_STANDBY" in script.read_text("utf-8")
    engine, found = prepare(script, log, limit) if waits else (None, {})
    begin = time.monotonic()
    if last:
        last.kill()
    if engine:
        while gpu()[0] > FREE:
            time.sleep(0.01)
        found["freed"] = round(time.monotonic() - begin, 2)
        engine.begin = begin
        standby.GO.touch()
    else:
        engine = Engine(script, str(log.with_suffix(".sock")), log, begin)
    found["token"] = round(engine.await_token(limit), 2)
    if last:
        last.wait()
    return engine, found | {"phases": engine.phases, "MiB": engine.processes()}


def main(out: Path, limit: float, turns: int, lines: list[Path]) -> None:
    """Start each line in each turn, and print its figures."""
    pynvml.nvmlInit()
    last = None
    for turn in range(turns):
        for line in lines:
            last, found = start(line, out / f"{line.stem}-{turn}.log", last, limit)
            print(json.dumps({"line": line.stem, "turn": turn} | found), flush=True)
            if rounds := int(os.environ.get("ROUNDS", "0")):
                throughput.main(last.api, rounds)
    if last:
        last.kill()
        last.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), [Path(a) for a in sys.argv[4:]])
