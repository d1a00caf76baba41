"""Serve the tiny model in the engine image's root until it has answered one question.

It runs inside of that root, as it is built.
"""

import http.client
import json
import socket
import subprocess
import sys
import time

SOCKET = "/run/vllm.sock"  # no port: the machine's network is shared
PATIENCE = 300  # seconds, for two slow cores
COMMAND = [
    *("vllm", "serve", "/srv/model", "--served-model-name", "tiny", "--uds", SOCKET),
    *("--language-model-only", "--max-model-len", "2048", "--max-num-seqs", "4"),
    *("--enforce-eager", "--enable-auto-tool-choice", "--tool-call-parser", "qwen3_coder"),
    # On a CPU, speculation and prefix caching exclude each other.
    *("--reasoning-parser", "qwen3", "--no-enable-prefix-caching", "--speculative-config"),
    json.dumps({"method": "dflash", "model": "/srv/dflash", "num_speculative_tokens": 3}),
]
QUESTION = {"model": "tiny", "max_tokens": 8, "messages": [{"role": "user", "content": "Hello"}]}


class Connection(http.client.HTTPConnection):
    """A connection to the server's socket."""

    def connect(self) -> None:
        """Connect."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(SOCKET)


def ask(method: str, path: str, body: object = None) -> tuple[int, bytes]:
    """Send a request; return the status and the content of the answer."""
    connection = Connection("localhost")
    connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read()


def healthy() -> bool:
    """Tell whether the server is ready."""
    try:
        return ask("GET", "/health")[0] == 200
    except OSError:
        return False


def main() -> int:
    """Start the server, ask, stop it."""
    server = subprocess.Popen(COMMAND)
    deadline = time.monotonic() + PATIENCE
    while not healthy():
        if server.poll() is not None or time.monotonic() > deadline:
            return 1
        time.sleep(0.2)
    status, answer = ask("POST", "/v1/chat/completions", QUESTION)
    server.terminate()
    server.wait()
    words = json.loads(answer)["choices"][0]["message"]["reasoning"] if status == 200 else ""
    print(status, answer.decode())
    return 0 if words else 1


if __name__ == "__main__":
    sys.exit(main())
