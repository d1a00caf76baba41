"""Docker, asked by its socket: its command takes a tenth of a second of the processor each time."""

import json
import socket
from typing import Any

from host.state.readers import UnknownError, once

SOCKET = "/var/run/docker.sock"
# Seconds of silence, and bytes of an answer.
_PATIENCE, _MOST = 20.0, 32 << 20


@once
def get(path: str) -> Any:
    """Return what Docker answers to GET, as JSON has it; None for what it does not have.

    Raises:
        UnknownError: It does not answer: it is not installed, does not run, or hangs.
    """
    answer = bytearray()
    try:
        with socket.socket(socket.AF_UNIX) as asked:
            asked.settimeout(_PATIENCE)
            asked.connect(SOCKET)
            # Of HTTP 1.0 the answer ends with the connection, in one piece.
            asked.sendall(f"GET {path} HTTP/1.0\r\nHost: docker\r\n\r\n".encode())
            while block := asked.recv(1 << 16):
                answer += block
                if len(answer) > _MOST:
                    raise UnknownError(f"Docker's answer has more than {_MOST} bytes")
    except OSError as error:
        raise UnknownError(f"Docker does not answer: {error.strerror or error}") from None
    head, _, body = bytes(answer).partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    if status == [b"404"]:
        return None
    if status != [b"200"]:
        raise UnknownError(f"Docker refuses {path}: {body[:200].decode(errors='replace')}")
    return json.loads(body)
