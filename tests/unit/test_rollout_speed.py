"""The program that measures one stream's speed, run for real against an engine of known speed."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

SPEED = Path(__file__).parents[2] / "files/rollout/speed.py"
# Pieces of two tokens each, so many a second.
PIECES, PIECES_PER_SECOND = 20, 50


class Engine(BaseHTTPRequestHandler):
    """Streams as vLLM does: the role, the pieces with the count so far, the count, the end."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200 if body["model"] == "qwen" else 404)
        self.end_headers()
        if body["model"] != "qwen":
            return
        # What comes before the first piece does not count.
        self._say({"choices": [{"delta": {"role": "assistant"}}]}, 0)
        time.sleep(0.5)
        for number in range(1, PIECES + 1):
            self._say({"choices": [{"delta": {"content": "x"}}]}, 2 * number)
            time.sleep(1 / PIECES_PER_SECOND)
        self._say({"choices": []}, 2 * PIECES)
        self.wfile.write(b"data: [DONE]\n\n")

    def _say(self, chunk: dict[str, object], tokens: int) -> None:
        usage = {"usage": {"completion_tokens": tokens}}
        self.wfile.write(f"data: {json.dumps(chunk | usage)}\n\n".encode())
        self.wfile.flush()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def _speed(url: str, model: str) -> str:
    return subprocess.run(
        [sys.executable, SPEED, url, model], capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()


def test_the_speed_is_that_after_the_first_piece(url: str) -> None:
    # The best of three on a machine that may be busy: about the engine's, seldom much slower.
    assert 0.3 < float(_speed(url, "qwen")) / (2 * PIECES_PER_SECOND) < 1.2


@pytest.mark.parametrize(("model", "problem"), [("other", "404"), ("", "404"), ("qwen", "refused")])
def test_why_there_is_no_figure_is_said(url: str, model: str, problem: str) -> None:
    where = "http://127.0.0.1:1" if problem == "refused" else url
    said = _speed(where, model)
    assert said.startswith("no speed could be measured: ")
    assert problem in said
