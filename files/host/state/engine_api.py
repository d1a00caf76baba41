"""The API of an engine, asked on its socket."""

import json
import socket
import time
from typing import Any

from host.common.seat import engine_address

# Bytes of an answer: vLLM's metrics, by far the longest, have some hundred thousand.
_MOST = 8 << 20


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
