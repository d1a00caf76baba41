"""fake_engine ROOT RELEASE STATE: an engine's HTTP side, as files in the folder STATE say.

hang: requests wait until it is gone; hang-N: those to a copy of the model; broken: they fail until
then; empty: they have no numbers; moving: the counters move, of the first of two copies.
STATE/asked holds a line for each question.
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path

from tests.component.socket_server import SocketServer


class Engine(BaseHTTPRequestHandler):
    """What vLLM answers, as far as a supervisor asks, and as files say."""

    state: Path
    steps = count(1)

    def do_GET(self) -> None:
        steps = next(self.steps) if self._is("moving") else 0
        counters = (
            "# TYPE vllm:kv_cache_usage_perc gauge\n"
            f'vllm:generation_tokens_total{{engine="0",model_name="tiny"}} {steps}.0\n'
            'vllm:generation_tokens_total{engine="1",model_name="tiny"} 1.0\n'
            f"http_requests_total {next(self.steps)}.0\n"
        )
        self._answer(200, counters if self.path == "/metrics" else "")

    def do_POST(self) -> None:
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        # As vLLM's balancer does, it sends what names no copy to the first.
        copy = self.headers.get("X-data-parallel-rank", "0")
        while self._is("hang") or self._is(f"hang-{copy}"):
            time.sleep(0.01)
        if self._is("broken") or question["model"] != "tiny":
            self._answer(500, '{"error": "EngineDeadError"}')
        elif self._is("empty"):
            self._answer(200, json.dumps({"data": [{"embedding": []}], "results": []}))
        elif self.path == "/v1/embeddings":
            self._answer(200, json.dumps({"data": [{"embedding": [0.5, len(question["input"])]}]}))
        elif self.path == "/v1/rerank":
            scores = [{"relevance_score": 0.5} for _ in question["documents"]]
            self._answer(200, json.dumps({"results": scores}))
        else:
            self._answer(200, json.dumps({"usage": {"completion_tokens": question["max_tokens"]}}))

    def _is(self, name: str) -> bool:
        return (self.state / name).exists()

    def _answer(self, status: int, body: str) -> None:
        if self.path != "/health":
            with (self.state / "asked").open("a") as asked:
                asked.write("metrics\n" if self.path == "/metrics" else f"{status}\n")
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Server(SocketServer):
    """Does not complain of clients that left."""

    def handle_error(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    Engine.state = Path(sys.argv[3])
    Server(Path(sys.argv[1]), sys.argv[2], Engine).serve_forever()
