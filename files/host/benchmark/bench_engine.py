"""The questions of a benchmark to the engine itself."""

import http.client
import json
import re
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from host.common.probe import Connection
from host.common.progress import JobError

# A long prompt is counted in less than a second; the first answer after a start may take a minute.
PATIENCE = 300
# Bytes of an answer: its metrics, by far the longest, have some hundred thousand.
_MOST = 16 << 20

# Name in the result -> counter of /metrics.
COUNTERS = {
    "drafted": "vllm:spec_decode_num_draft_tokens_total",
    "accepted": "vllm:spec_decode_num_accepted_tokens_total",
    "drafts": "vllm:spec_decode_num_drafts_total",
    "preemptions": "vllm:num_preemptions_total",
    "cached_tokens": "vllm:prefix_cache_hits_total",
    "queried_tokens": "vllm:prefix_cache_queries_total",
}
# Drafted tokens that were accepted, by their place in the draft: a label, from 0 on.
_AT = re.compile(
    r'^vllm:spec_decode_num_accepted_tokens_per_pos_total\{.*position="(\d+)".*\} (\S+)$',
    re.MULTILINE,
)
_SAMPLE = re.compile(r"^(vllm:\w+)(?:\{.*\})? (\S+)$", re.MULTILINE)
# NCCL says so once for each connection; at the start it also names what it does not find.
_NETWORK = re.compile(r"(?:via NET/|Using network )(IB|Socket)")


def samples(text: str) -> dict[str, float]:
    """Return the samples of /metrics by name, those of all labels added up."""
    found: dict[str, float] = {}
    for name, value in _SAMPLE.findall(text):
        found[name] = found.get(name, 0.0) + float(value)
    return found


def positions(text: str) -> list[int]:
    """Return how many drafted tokens /metrics says were accepted, by their place in the draft."""
    found: dict[int, int] = {}
    for place, value in _AT.findall(text):
        found[int(place)] = found.get(int(place), 0) + int(float(value))
    return [found[place] for place in sorted(found)]


class MeasuredEngine:
    """An engine that serves.

    Args:
        root: of its seat.
        release: its id.
        model: a name that it serves.
    """

    def __init__(self, root: Path, release: str, model: str) -> None:
        self._engine = root, release
        self._model = model
        self._unit = f"vllm@{release}"

    def counters(self) -> tuple[dict[str, int], list[int]]:
        """Return `COUNTERS` as they stand, 0 for what the engine does not count; `positions`."""
        text = self._ask("/metrics")
        found = samples(text)
        counted = {name: int(found.get(counter, 0)) for name, counter in COUNTERS.items()}
        return counted, positions(text)

    def others(self) -> dict[str, int]:
        """Return how many requests of others run and wait.

        The least of three looks: the engine's own supervisor asks for a token now and then.
        """
        looks = []
        for _ in range(3):
            found = samples(self._ask("/metrics"))
            states = ("running", "waiting")
            looks.append([int(found.get(f"vllm:num_requests_{state}", 0)) for state in states])
            time.sleep(0.5)
        running, waiting = min(looks)
        return {"running": running, "waiting": waiting}

    def context(self) -> int:
        """Return the tokens that a request may have in all."""
        models = json.loads(self._ask("/v1/models"))["data"]
        return int(next(each["max_model_len"] for each in models if each["id"] == self._model))

    def tokens(self, text: str) -> int:
        """Return the length of a text."""
        body = {"model": self._model, "prompt": text, "add_special_tokens": False}
        return int(json.loads(self._ask("/tokenize", body))["count"])

    def thinks(self) -> bool:
        """Tell whether an answer holds reasoning although the request asks for none."""
        question = {
            "model": self._model,
            "messages": [{"role": "user", "content": "Is 91 a prime number?"}],
            "max_tokens": 64,
            "temperature": 0,
            "chat_template_kwargs": {"enable_thinking": False},
        }
        answer = json.loads(self._ask("/v1/chat/completions", question))
        message: dict[str, Any] = answer["choices"][0]["message"]
        # Renamed in vLLM 0.11.1; without a parser the words stay in the answer.
        reasoning = message.get("reasoning") or message.get("reasoning_content")
        return bool(reasoning) or "<think>" in (message.get("content") or "")

    def network(self) -> str | None:
        """Return how the engine talks to its other half; None where its journal does not tell."""
        journal = subprocess.run(self._journal("cat"), capture_output=True, check=False)
        found = _NETWORK.findall(journal.stdout.decode(errors="replace"))
        return f"NET/{found[-1]}" if found else None

    def start(self, kept: str) -> list[tuple[float, str]]:
        """Return seconds since the epoch, and line, of the engine's start.

        Args:
            kept: what a line has that is wanted.
        """
        wanted, found = re.compile(kept), []
        with subprocess.Popen(
            self._journal("short-unix"), stdout=subprocess.PIPE, text=True, errors="replace"
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

    def _journal(self, form: str) -> list[str]:
        """Return the command that prints what the engine has logged in this life."""
        unit = ["systemctl", "show", "--value", "--property=InvocationID", self._unit]
        life = subprocess.run(unit, capture_output=True, text=True, check=False).stdout.strip()
        return ["journalctl", "--quiet", f"--output={form}", f"_SYSTEMD_INVOCATION_ID={life}"]

    def _ask(self, path: str, body: object = None) -> str:
        request: tuple[Any, ...] = ("GET", path)
        if body is not None:
            head = {"Content-Type": "application/json"}
            request = ("POST", path, json.dumps(body), head)
        try:
            with closing(Connection(*self._engine, PATIENCE)) as connection:
                connection.request(*request)
                answer = connection.getresponse()
                text = answer.read(_MOST + 1)
            said = text[:300].decode(errors="replace")
            problem = None if answer.status == 200 else f"{answer.status}: {said}"
        except (OSError, http.client.HTTPException) as error:
            problem = str(error)
        if problem is not None:
            raise JobError(
                f"The engine does not answer {path} ({problem}): look with "
                f"`journalctl -u {self._unit}`, then run again."
            )
        if len(text) > _MOST:
            raise JobError(f"The engine answers {path} with more than {_MOST:,} bytes.")
        return text.decode()
