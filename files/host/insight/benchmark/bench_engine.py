"""The questions of a benchmark to the engine itself."""

import http.client
import json
import re
import subprocess
import time
from contextlib import closing
from pathlib import Path

from host.common.probe import Connection
from host.common.progress import JobError

# A long prompt is counted in less than a second; the first answer after a start may take a minute.
_PATIENCE = 300
# Bytes of an answer: its metrics, by far the longest, have some hundred thousand.
_MOST = 16 << 20
_BUSY = ("num_requests_running", "num_requests_waiting")
_SAMPLE = re.compile(r"^vllm:(\w+)(?:\{.*\})? (\S+)$", re.MULTILINE)


def metric(text: str, *names: str) -> int:
    """Return the sum of metrics in what /metrics says, over all labels; 0 where there is none."""
    return int(sum(float(value) for name, value in _SAMPLE.findall(text) if name in names))


class MeasuredEngine:
    """An engine that serves, by the folder of its seat, its release, and a name that it serves."""

    def __init__(self, root: Path, release: str, model: str) -> None:
        self._engine = root, release
        self._model = model
        self._unit = f"vllm@{release}"

    def preemptions(self) -> int:
        """Return how many requests lost their place in the KV cache since the engine's start."""
        return metric(self._ask("/metrics"), "num_preemptions_total")

    def others(self) -> int:
        """Return how many requests of others run or wait, the least of three looks.

        The engine's own supervisor asks for a token now and then.
        """
        looks = []
        for _ in range(3):
            looks.append(metric(self._ask("/metrics"), *_BUSY))
            time.sleep(0.5)
        return min(looks)

    def context(self) -> int:
        """Return the tokens that a request may have in all."""
        models = json.loads(self._ask("/v1/models"))["data"]
        return int(next(each["max_model_len"] for each in models if each["id"] == self._model))

    def tokens(self, text: str) -> int:
        """Return the length of a text."""
        body = {"model": self._model, "prompt": text, "add_special_tokens": False}
        return int(json.loads(self._ask("/tokenize", body))["count"])

    def start(self, kept: str) -> list[tuple[float, str]]:
        """Return the lines of the engine's start that match a pattern, each with its time."""
        unit = ["systemctl", "show", "--value", "--property=InvocationID", self._unit]
        life = subprocess.run(unit, capture_output=True, text=True, check=False).stdout.strip()
        command = ["journalctl", "--quiet", "--output=short-unix", f"_SYSTEMD_INVOCATION_ID={life}"]
        wanted, found = re.compile(kept), []
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, errors="replace"
        ) as journal:
            assert journal.stdout
            # TIME HOST PROGRAM[ID]: MESSAGE
            for line in journal.stdout:
                head, _, message = line.rstrip("\n").partition("]: ")
                if wanted.search(message):
                    found.append((float(head.split()[0]), message))
                # An engine that serves logs each request: nothing of its start comes after.
                if message == "serving":
                    break
            journal.terminate()
        return found

    def _ask(self, path: str, body: object = None) -> str:
        method, text = ("GET", None) if body is None else ("POST", json.dumps(body))
        try:
            with closing(Connection(*self._engine, _PATIENCE)) as connection:
                connection.request(method, path, text, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                said = answer.read(_MOST + 1).decode(errors="replace")
            problem = "" if answer.status == 200 else f"{answer.status}: {said[:300]}"
            problem = problem or (f"more than {_MOST:,} characters" if len(said) > _MOST else "")
        except (OSError, http.client.HTTPException) as error:
            problem = str(error) or type(error).__name__
        if problem:
            raise JobError(
                f"The engine does not answer {path} ({problem}): look with "
                f"`journalctl -u {self._unit}`, then run again."
            )
        return said
