"""Small servers that speak as vLLM's door does, and that can fail in several ways."""

from __future__ import annotations

import json
import ssl
import threading
import time
from contextlib import suppress
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.clock import patience
from tests.component.servers import QuietHandler, until
from tests.makers.gateway import KEYS

WORDS = ["one ", "two ", "three ", "four "]


class Door(ThreadingHTTPServer):
    """A replica behind its door, in one of these states:

    "serves"; "starts" answers 503; "gone" answers nothing; "endless" does not end its answer to a
    look; "strange" answers 400 and what it was asked; "leads" answers with a redirect and a cookie;
    "silent" ends a stream before its first token; "late" waits for `go` after its second word;
    "cut" ends there once the client has made the file `heard`; "flood" streams without end or
    lines, until somebody hangs up: `broken`. Unless `seen`, it answers looks as if it served.
    `looked` is set when a look has come, which is answered once `ready` is.
    """

    # As many connections at once as a real door takes: the default is 5.
    request_queue_size = 128

    daemon_threads = True

    def __init__(self, tls: Path | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Replica)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls / "tls.crt", tls / "tls.key")
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.state = "serves"
        self.seen = True
        self.pause = 0.0
        self.key = f"Bearer {KEYS[0]}"
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.headers: list[dict[str, str]] = []
        self.go, self.broken = threading.Event(), threading.Event()
        self.looked, self.ready = threading.Event(), threading.Event()
        self.ready.set()
        self.heard = Path("/nowhere")
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server_port}"


class Replica(QuietHandler):
    protocol_version = "HTTP/1.1"
    server: Door

    def do_GET(self) -> None:
        self.server.looked.set()
        self.server.ready.wait(patience())
        if self.server.state == "endless":
            self._go_on()
        elif self._allowed(self.server.state if self.server.seen else "serves"):
            self._json(200, {"object": "list", "data": [{"id": "tiny", "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((self.path, body))
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        if not self._allowed(self.server.state):
            return
        time.sleep(self.server.pause)
        if self.server.state == "flood":
            self._go_on()
        elif body.get("stream"):
            self._stream(body)
        elif self.path == "/v1/embeddings":
            data = [
                {"object": "embedding", "index": index, "embedding": [0.5, index + 1.0]}
                for index, _ in enumerate(body["input"])
            ]
            usage = {"prompt_tokens": 2, "total_tokens": 2}
            self._json(200, {"object": "list", "model": "tiny-texts", "data": data, "usage": usage})
        elif self.path == "/v1/rerank":
            results = [
                {"index": index, "document": {"text": text}, "relevance_score": index + 1.0}
                for index, text in reversed([*enumerate(body["documents"])])
            ]
            usage = {"prompt_tokens": 2, "total_tokens": 2}
            self._json(200, {"id": "score-1", "model": "t", "usage": usage, "results": results})
        elif "prompt" in body:
            choice = {"index": 0, "text": "".join(WORDS), "finish_reason": "stop"}
            self._json(200, {"id": "c", "object": "text_completion", "choices": [choice]})
        else:
            message = {"role": "assistant", "content": "".join(WORDS), "reasoning": "hm"}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 4, "total_tokens": 5}
            self._json(200, {"id": "c", "object": "chat.completion", "created": 1, "model": "tiny"}
                       | {"choices": [choice], "usage": usage})  # fmt: skip

    def _allowed(self, state: str) -> bool:
        if state == "gone":
            self.close_connection = True
            self.connection.shutdown(2)
        elif self.headers["authorization"] != self.server.key:
            self._json(401, {"error": {"message": "no key"}})
        elif state == "strange":
            self._json(400, {"error": {"message": f"what is {self.server.asked[-1:]}?"}})
        elif state == "leads":
            self.send_response(307)
            self.send_header("location", f"{self.server.url}/elsewhere")
            self.send_header("set-cookie", "a=b")
            self.send_header("content-length", "0")
            self.end_headers()
        elif state == "starts":
            self._json(503, {"error": {"message": "the engine starts"}})
        else:
            return True
        return False

    def _json(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if status == 503:
            self.send_header("retry-after", "5")
        self.end_headers()
        self.wfile.write(body)

    def _go_on(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        with suppress(OSError):
            while True:
                self.wfile.write(bytes(65536))
        self.server.broken.set()

    def _stream(self, body: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        state = self.server.state
        if state == "silent":
            self.connection.shutdown(2)
            return
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}, {"reasoning": "hm"}]
        deltas += [{"content": word} for word in WORDS]
        for number, delta in enumerate(deltas):
            self._event(delta, None)
            if number == 3 and state == "cut":
                until(self.server.heard.exists)
                self.connection.shutdown(2)
                return
            if number == 3 and state == "late":
                self.server.go.wait(patience())
        self._event({}, "stop")
        self._chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, delta: dict[str, Any], reason: str | None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        content = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "tiny"}
        self._chunk(b"data: " + json.dumps(content | {"choices": [choice]}).encode() + b"\n\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()
