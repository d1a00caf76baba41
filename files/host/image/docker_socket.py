"""Docker's own API, at its socket: unlike its command line, it tells bytes."""

import http.client
import json
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn
from urllib.parse import quote

from host.common.progress import JobError
from host.common.retry import RetryableError

SOCKET = Path("/var/run/docker.sock")

# Words of Docker, and what they mean. Whatever it says else may pass.
Cause = tuple[Sequence[str], str]
FULL: Cause = (("no space left on device",), "the disk is full: free some space, and run again")


class Docker(http.client.HTTPConnection):
    """A connection to the Docker daemon of this machine."""

    def __init__(self) -> None:
        super().__init__("docker")

    def connect(self) -> None:
        """Connect to its socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(str(SOCKET))

    def ask(
        self, method: str, path: str, headers: Mapping[str, str] = MappingProxyType({})
    ) -> http.client.HTTPResponse:
        """Send a request without a body and return the head of its answer.

        Raises:
            RetryableError: no daemon answers.
        """
        try:
            self.request(method, path, headers=headers)
            return self.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise RetryableError(
                f"Docker does not answer ({error}): sudo systemctl start docker"
            ) from None


def is_here(image: str) -> bool:
    """Tell whether Docker has an image."""
    docker = Docker()
    try:
        return docker.ask("GET", f"/images/{quote(image)}/json").status == http.client.OK
    finally:
        docker.close()


def complaint(answer: http.client.HTTPResponse) -> str:
    """Return what Docker says in an answer that is no success."""
    said: str = json.loads(answer.read() or b"{}").get("message", f"status {answer.status}")
    return said


def failure(event: dict[str, Any]) -> str | None:
    """Return the failure that a line of an answer tells, None where it tells none.

    Docker 28 deprecates `error`, which clients used to read, for `errorDetail`, which is as old.
    """
    detail = event.get("errorDetail") or {}
    said: str | None = detail.get("message") or event.get("error")
    return said


def raise_known(image: str, said: str, causes: Sequence[Cause]) -> NoReturn:
    """Raise JobError where Docker's message has a known cause, RetryableError otherwise."""
    for words, meaning in causes:
        if any(word in said.lower() for word in words):
            raise JobError(f"{image}: {meaning}. Docker says: {said}")
    raise RetryableError(f"Docker says: {said}")
