"""An engine on this machine, started by a shell file: its log, its tokens, its memory."""

import atexit
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

# What vLLM logs where a phase is over, in their order (0.26).
PHASES = {
    "arguments": r"non-default args",
    "configuration": r"Using max model len|Chunked prefill is enabled",
    "engine process": r"Initializing a V1 LLM engine",
    "GPU": r"rank 0 in world size",
    "model begun": r"Starting to load model",
    "weights": r"Loading weights took|Loading safetensors.*100%",
    "model": r"Model loading took",
    "compiled code": r"Directly load the compiled graph|torch\.compile.*took",
    "first run": r"Initial profiling/warmup run took",
    "memory": r"GPU KV cache size",
    "graphs": r"Graph capturing finished",
    "engine": r"init engine .* took",
    "server": r"Starting vLLM server",
    "ready": r"Application startup complete",
}


class _Unix(http.client.HTTPConnection):
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.host)


def ask(api: str, path: str, body: object = None, timeout: float = 600) -> http.client.HTTPResponse:
    """Ask the API at a Unix socket; the answer is not read yet."""
    connection = _Unix(api, timeout=timeout)
    text = body and json.dumps(body)
    connection.request("POST" if body else "GET", path, text, {"Content-Type": "application/json"})
    return connection.getresponse()


class Engine:
    """A process group whose log lines are stamped with the seconds since `begin`."""

    def __init__(self, command: list[str | Path], api: str, log: Path, begin: float) -> None:
        self.api, self.begin, self.phases = api, begin, {}
        self._log = log.open("w", buffering=1)
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace",
            start_new_session=True, env=os.environ | {"SOCKET": api},
        )  # fmt: skip
        atexit.register(self.kill)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout:
            now = time.monotonic() - self.begin
            self._log.write(f"{now:9.3f} {line}")
            for phase, sign in PHASES.items():
                if phase not in self.phases and re.search(sign, line):
                    self.phases[phase] = round(now, 1)

    def within(self, limit: float) -> bool:
        """Tell whether it lives, and its limit is not over."""
        return self._process.poll() is None and time.monotonic() - self.begin < limit

    def await_token(self, limit: float) -> float:
        """Return when the first token of a chat came; it and limit are seconds since `begin`."""
        chat = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}
        while self.within(limit):
            try:
                if ask(self.api, "/health", timeout=5).status == 200:
                    answer = ask(self.api, "/v1/chat/completions", chat)
                    if answer.status != 200:
                        raise SystemExit(f"The chat failed: {answer.read()!r}")
                    answer.read()
                    return time.monotonic() - self.begin
            except (OSError, http.client.HTTPException):
                pass
            time.sleep(0.03)
        raise SystemExit(f"No token after {limit} s, or the engine ended: see {self._log.name}.")

    def processes(self) -> dict[int, int]:
        """Return the proportional memory of each of its processes, in MiB."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if os.getsid(pid := int(folder.name)) == self._process.pid:
                    memory = re.search(r"Pss: +(\d+)", (folder / "smaps_rollup").read_text())
                    found[pid] = int(memory[1]) // 1024 if memory else 0
            except OSError:
                continue
        return found

    def kill(self) -> None:
        """Kill all its processes, as a crash would; they are not waited for."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def wait(self) -> None:
        """Wait until its processes are gone and the log is complete."""
        self._process.wait()
        self._reader.join()
        self._log.close()
