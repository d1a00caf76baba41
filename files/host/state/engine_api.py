"""The API of an engine, asked on its socket, and its speed."""

import json
import socket
import time
from typing import Any

from host.common.seat import engine_address

# Bytes of an answer: vLLM's metrics, by far the longest, have some hundred thousand.
_MOST = 8 << 20
# The measurement of a speed.
_ANSWERS = 3
# Long enough that the time before the first token is lost in it: 5 s at 40 tokens a second.
_TOKENS = 200
_PATIENCE = 120.0
_QUESTION = "Write a long essay on the history of bridges."


def ask(place: str, release: str, path: str, body: Any = None, patience: float = 10.0) -> str:
    """Return what an engine answers to a request, or why it does not answer.

    Args:
        place: The folder of its seat.
        body: What is posted; None to get.
        patience: Seconds for all of it.
    """
    deadline = time.monotonic() + patience
    text = "" if body is None else json.dumps(body)
    head = f"{'GET' if body is None else 'POST'} {path} HTTP/1.0\r\nHost: localhost\r\n"
    if text:
        head += f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n"
    answer = bytearray()
    try:
        with engine_address(place, release) as address, socket.socket(socket.AF_UNIX) as engine:
            engine.settimeout(patience)
            engine.connect(address)
            engine.sendall(f"{head}\r\n{text}".encode())
            # Of HTTP 1.0 the answer ends with the connection, in one piece.
            while len(answer) < _MOST and (block := engine.recv(1 << 16)):
                answer += block
                engine.settimeout(max(0.001, deadline - time.monotonic()))
    except TimeoutError:
        return f"no answer within {patience:g} s"
    except OSError as error:
        return f"no answer: {error.strerror or error}"
    return bytes(answer).partition(b"\r\n\r\n")[2].decode("utf-8", "replace")


def speed(root: str, release: str, model: str) -> dict[str, Any]:
    """Return the tokens a second of one answer; None, and what is said, where there is none.

    The best of a few counts: what others ask of the engine meanwhile can only make it slower.
    """
    speeds = []
    body = {
        "model": model,
        "messages": [{"role": "user", "content": _QUESTION}],
        "max_tokens": _TOKENS,
        "temperature": 0,
        "ignore_eos": True,
    }
    for _ in range(_ANSWERS):
        begun = time.monotonic()
        answer = ask(root, release, "/v1/chat/completions", body, _PATIENCE)
        seconds = time.monotonic() - begun
        try:
            speeds.append(json.loads(answer)["usage"]["completion_tokens"] / seconds)
        except (ValueError, KeyError, TypeError, RecursionError):
            return {"speed": None, "said": " ".join(answer.split())[:200]}
    return {"speed": round(max(speeds), 1), "said": ""}
