"""The program that measures the speed of one answer, run for real."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from host.state.engine_api import speed
from tests.component.servers import QuietHandler
from tests.component.socket_server import SocketServer

# Seconds of an answer.
SECONDS = 0.5


class Engine(QuietHandler):
    """Answers as vLLM does, and keeps the speed of each answer in tokens a second."""

    speeds: ClassVar[list[float]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        begun = time.monotonic()
        if known := body["model"] == "qwen":
            time.sleep(SECONDS)
        self.send_response(200 if known else 404)
        self.end_headers()
        # The model itself would have ended sooner.
        tokens = body["max_tokens"] if body["ignore_eos"] else 1
        told = {"usage": {"completion_tokens": tokens}} if known else {"error": {"code": 404}}
        self.speeds.append(tokens / (time.monotonic() - begun))
        self.wfile.write(json.dumps(told).encode())


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a seat in which one engine serves, and another has left its socket."""
    root = tmp_path_factory.mktemp("root")
    SocketServer(root, "ended-1", Engine).server_close()
    server = SocketServer(root, "chat-1", Engine)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield root
    server.shutdown()


def test_the_speed_is_that_of_the_best_answer(root: Path) -> None:
    """On a machine that may be busy."""
    Engine.speeds.clear()
    found = speed(str(root), "chat-1", "qwen")["speed"]
    assert 0.4 < found / max(Engine.speeds) <= 1


@pytest.mark.parametrize(
    ("release", "problem"), [("chat-1", "404"), ("ended-1", "no answer: Connection refused")]
)
def test_why_there_is_no_figure_is_said(root: Path, release: str, problem: str) -> None:
    found = speed(str(root), release, "other")
    assert found["speed"] is None
    assert problem in found["said"]
