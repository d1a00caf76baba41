"""What a benchmark asks the engine itself."""

import http.client
import json
import re
import subprocess
import time
import urllib.error
import urllib.request
from typing import Any

from progress import Stop

# A long prompt is counted in less than a second; the first answer after a start may take a minute.
PATIENCE = 300

# Name in the result -> counter of /metrics.
COUNTERS = {
    "drafted": "vllm:spec_decode_num_draft_tokens_total",
    "accepted": "vllm:spec_decode_num_accepted_tokens_total",
    "drafts": "vllm:spec_decode_num_drafts_total",
    "preemptions": "vllm:num_preemptions_total",
    "cached_tokens": "vllm:prefix_cache_hits_total",
    "queried_tokens": "vllm:prefix_cache_queries_total",
}
_SAMPLE = re.compile(r"^(vllm:\w+)(?:\{.*\})? (\S+)$", re.MULTILINE)
# NCCL says so once for each connection; at the start it also names what it does not find.
_NETWORK = re.compile(r"(?:via NET/|Using network )(IB|Socket)")


def samples(text: str) -> dict[str, float]:
    """Return the samples of /metrics by name, those of all labels added up."""
    found: dict[str, float] = {}
    for name, value in _SAMPLE.findall(text):
        found[name] = found.get(name, 0.0) + float(value)
    return found


class Engine:
    """An engine that serves.

    Args:
        url: http://ADDRESS:PORT.
        model: a name that it serves.
        unit: its systemd unit.
    """

    def __init__(self, url: str, model: str, unit: str) -> None:
        self._url = url
        self._model = model
        self._unit = unit

    def counters(self) -> dict[str, int]:
        """Return `COUNTERS` as they stand; 0 for what the engine does not count."""
        found = samples(self._ask("/metrics"))
        return {name: int(found.get(counter, 0)) for name, counter in COUNTERS.items()}

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
        """Whether an answer holds reasoning although the request asks for none."""
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
        unit = ["systemctl", "show", "--value", "--property=InvocationID", self._unit]
        start = subprocess.run(unit, capture_output=True, text=True, check=False).stdout.strip()
        journal = subprocess.run(
            ["journalctl", "--quiet", "--output=cat", f"_SYSTEMD_INVOCATION_ID={start}"],
            capture_output=True,
            check=False,
        )
        found = _NETWORK.findall(journal.stdout.decode(errors="replace"))
        return f"NET/{found[-1]}" if found else None

    def _ask(self, path: str, body: object = None) -> str:
        request = urllib.request.Request(
            f"{self._url}{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                text: str = answer.read().decode()
                return text
        except (OSError, http.client.HTTPException) as error:
            said = error.read()[:300].decode() if isinstance(error, urllib.error.HTTPError) else ""
            raise Stop(
                f"The engine does not answer {path} ({error}) {said}: look with "
                f"`journalctl -u {self._unit}`, then run again."
            ) from None
