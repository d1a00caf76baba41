"""fake_engine PORT STATE: an engine's HTTP side, as files in the folder STATE say.

hang: completions wait until it is gone; broken: they fail; moving: the counters move.
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    """What vLLM answers, as far as a supervisor asks."""

    state: Path
    steps = count(1)

    def do_GET(self) -> None:
        steps = next(self.steps) if self._is("moving") else 0
        counters = (
            "# TYPE vllm:kv_cache_usage_perc gauge\n"
            f'vllm:generation_tokens_total{{engine="0",model_name="tiny"}} {steps}.0\n'
            f"http_requests_total {next(self.steps)}.0\n"
        )
        self._answer(200, counters if self.path == "/metrics" else "")

    def do_POST(self) -> None:
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        while self._is("hang"):
            time.sleep(0.01)
        if self._is("broken") or question["model"] != "tiny":
            self._answer(500, '{"error": "EngineDeadError"}')
        else:
            self._answer(200, json.dumps({"usage": {"completion_tokens": question["max_tokens"]}}))

    def _is(self, name: str) -> bool:
        return (self.state / name).exists()

    def _answer(self, status: int, body: str) -> None:
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Server(ThreadingHTTPServer):
    """Does not complain of clients that left."""

    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    Handler.state = Path(sys.argv[2])
    Server(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
