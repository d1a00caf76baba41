"""Seconds of engines from the death of the one before to their first token, in turn.

    python -m tests.gpu.starts OUT LIMIT LINE...

A line is a shell file that ends in `exec vllm serve ... --uds "$SOCKET"`, and may stand there more
than once. One that sets SPARKWRIGHT_STANDBY waits, and is told at the death. All of them are made
while the first engine, which finds no cache, is busy: it has sized its memory by then, and they
have the bytes of its KV cache as $SPARKWRIGHT_KV_CACHE. With ROUNDS in the environment, the
throughput of each line's last engine is measured, too, unless it waited.
"""

import json
import os
import re
import sys
import time
from pathlib import Path

import pynvml
import sparkwright_standby as standby

from tests.gpu import throughput
from tests.gpu.engine import Engine

FREE = 2 << 30  # bytes of the GPU that are in use where no engine is
# Where several wait, each has folders of its own in the place of those that all know.
OWN_FOLDERS = "".join(
    f'mount --bind "$0/{file.parent.name}" {file.parent} && '
    for file in (standby.GO, standby.WAITING)
)


def gpu() -> tuple[int, list[int]]:
    """Return the bytes in use on the GPU, and which processes compute there."""
    device = pynvml.nvmlDeviceGetHandleByIndex(0)
    processes = pynvml.nvmlDeviceGetComputeRunningProcesses(device)
    return pynvml.nvmlDeviceGetMemoryInfo(device).used, [each.pid for each in processes]


class Standby:
    """An engine that waits for its word, started when this is made."""

    def __init__(self, script: Path, folder: Path, log: Path) -> None:
        self._folder, self._log = folder, log
        for file in (standby.GO, standby.WAITING):
            (folder / file.parent.name).mkdir(parents=True)
            file.parent.mkdir(parents=True, exist_ok=True)
        self.live()
        self._begun = time.time()
        self.engine = Engine(
            ["unshare", "--mount", "bash", "-c", OWN_FOLDERS + 'exec bash "$1"', folder, script],
            str(log.with_suffix(".sock")), log, time.monotonic(),
        )  # fmt: skip
        self.took = 0.0

    def _file(self, file: Path) -> Path:
        return self._folder / file.parent.name / file.name

    def live(self) -> None:
        """Give it a sign of its supervisor."""
        self._file(standby.ALIVE).touch()

    def await_waiting(self, limit: float) -> None:
        """Return when it waits."""
        while not self._file(standby.WAITING).exists():
            if not self.engine.within(limit):
                raise SystemExit(f"The standby does not wait: see {self._log}.")
            time.sleep(0.1)
        self.took = self._file(standby.WAITING).stat().st_mtime - self._begun

    def go(self, begin: float) -> None:
        """Say the word to it, whose start began when another engine died."""
        self.engine.begin = begin
        self._file(standby.GO).touch()


def start(
    script: Path, log: Path, last: Engine, waiting: Standby | None, limit: float
) -> tuple[Engine, dict[str, object]]:
    """Kill the last engine and have the next one answer; return it with its figures."""
    found: dict[str, object] = {}
    if waiting:
        pids = set(memory := waiting.engine.processes())
        found = {"standby prepared in": round(waiting.took, 1), "standby MiB": memory}
        found["standby on GPU"] = sorted(pids & set(gpu()[1]))
    begin = time.monotonic()
    last.kill()
    if waiting:
        while gpu()[0] > FREE:
            time.sleep(0.01)
        found["freed"] = round(time.monotonic() - begin, 2)
        waiting.go(begin)
        engine = waiting.engine
    else:
        engine = Engine(["bash", script], str(log.with_suffix(".sock")), log, begin)
    found["token"] = round(engine.await_token(limit), 2)
    last.wait()
    return engine, found | {"phases": engine.phases, "MiB": engine.processes()}


def first(script: Path, log: Path, limit: float) -> Engine:
    """Start an engine; return it when it has sized its KV cache, which the next ones are told."""
    engine = Engine(["bash", script], str(log.with_suffix(".sock")), log, time.monotonic())
    while "memory" not in engine.phases:
        if not engine.within(limit):
            raise SystemExit(f"No KV cache after {limit} s: see {log}.")
        time.sleep(1)
    gib = re.findall(r"Available KV cache memory: ([0-9.]+) GiB", log.read_text("utf-8"))[-1]
    os.environ["SPARKWRIGHT_KV_CACHE"] = str(int((float(gib) - 0.005) * (1 << 30)))
    return engine


def main(out: Path, limit: float, lines: list[Path]) -> None:
    """Start each line, and print its figures."""
    pynvml.nvmlInit()
    logs = [out / f"{turn}-{line.stem}.log" for turn, line in enumerate(lines)]
    last = first(lines[0], logs[0], limit)
    wait = {line for line in lines if standby.VARIABLE in line.read_text("utf-8")}
    waiting = {
        log: Standby(line, log.with_suffix(""), log)
        for line, log in zip(lines, logs, strict=True)
        if line in wait
    }
    found: dict[str, object] = {"token": round(last.await_token(limit), 2), "phases": last.phases}
    for each in waiting.values():
        each.await_waiting(limit)
    for turn, (line, log) in enumerate(zip(lines, logs, strict=True)):
        if turn:
            for each in waiting.values():
                each.live()
            last, found = start(line, log, last, waiting.pop(log, None), limit)
        print(json.dumps({"line": line.stem, "turn": turn} | found), flush=True)
        rounds = int(os.environ.get("ROUNDS", "0"))
        if rounds and line not in {*lines[turn + 1 :], *wait}:
            throughput.main(last.api, rounds)
    last.kill()
    last.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), [Path(argument) for argument in sys.argv[3:]])
