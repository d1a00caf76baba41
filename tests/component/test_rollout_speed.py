"""The program that measures one stream's speed, run for real against an engine of known speed."""

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from tests.clock import patience
from tests.component.servers import QuietHandler
from tests.component.socket_server import SocketServer
from tests.programs import host_program

# Seconds before the first of some pieces, and between two of them.
FIRST, NEXT = 0.6, 0.02
PIECES, TOKENS_PER_PIECE = 16, 8


class Engine(QuietHandler):
    """Streams as vLLM does: the role, the pieces with the count so far, the count, the end.

    Attributes:
        speeds: of each answer, in tokens a second, as the engine itself has seen it.
    """

    speeds: ClassVar[list[float]] = []

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200 if body["model"] == "qwen" else 404)
        self.end_headers()
        if body["model"] != "qwen":
            return
        # What comes before the first piece does not count.
        self._say({"choices": [{"delta": {"role": "assistant"}}]}, 0)
        time.sleep(FIRST)
        said = []
        # The model itself would have said all with the first one.
        for number in range(1, (PIECES if body.get("ignore_eos") else 1) + 1):
            self._say({"choices": [{"delta": {"content": "x"}}]}, TOKENS_PER_PIECE * number)
            said.append(time.monotonic())
            time.sleep(NEXT)
        self.speeds.append((PIECES - 1) * TOKENS_PER_PIECE / (said[-1] - said[0]))
        self._say({"choices": []}, TOKENS_PER_PIECE * PIECES)
        self.wfile.write(b"data: [DONE]\n\n")

    def _say(self, chunk: dict[str, object], tokens: int) -> None:
        usage = {"usage": {"completion_tokens": tokens}}
        self.wfile.write(f"data: {json.dumps(chunk | usage)}\n\n".encode())
        self.wfile.flush()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a seat in which one engine serves, and another has left its socket."""
    root = tmp_path_factory.mktemp("root")
    SocketServer(root, "ended-1", Engine).server_close()
    server = SocketServer(root, "chat-1", Engine)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield root
    server.shutdown()


def _speed(root: Path, release: str, model: str) -> str:
    return subprocess.run(
        host_program("speed", str(root), release, model),
        capture_output=True,
        text=True,
        check=True,
        timeout=patience(),
    ).stdout.strip()


def test_the_speed_is_that_after_the_first_piece(root: Path) -> None:
    """On a machine that may be busy: with the time before it, it would be a third."""
    Engine.speeds.clear()
    found = float(_speed(root, "chat-1", "qwen"))
    assert 0.4 < found / max(Engine.speeds) < 2.5


@pytest.mark.parametrize(("model", "problem"), [("other", "404"), ("", "404"), ("qwen", "refused")])
def test_why_there_is_no_figure_is_said(root: Path, model: str, problem: str) -> None:
    said = _speed(root, "ended-1" if problem == "refused" else "chat-1", model)
    assert said.startswith("no speed could be measured: ")
    assert problem in said
