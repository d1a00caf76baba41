"""Docker's own API, at its socket: unlike its command line, it tells bytes."""

import http.client
import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
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
        self, method: str, path: str, headers: Mapping[str, str] | None = None
    ) -> http.client.HTTPResponse:
        """Send a request without a body; return the head of its answer, or raise RetryableError."""
        try:
            self.request(method, path, headers=headers or {})
            return self.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise RetryableError(
                f"Docker does not answer ({error}): sudo systemctl start docker"
            ) from None


def is_here(image: str) -> bool:
    """Tell whether Docker has an image."""
    with closing(Docker()) as docker:
        return docker.ask("GET", f"/images/{quote(image)}/json").status == http.client.OK


def complaint(answer: http.client.HTTPResponse) -> str:
    """Return what Docker says in an answer that is no success."""
    return str(json.loads(answer.read() or b"{}").get("message", f"status {answer.status}"))


def meaning(said: str, causes: Sequence[Cause]) -> str:
    """Return what words of Docker mean by the first cause that is known; "" by none."""
    known = (what for words, what in causes if any(word in said.lower() for word in words))
    return next(known, "")


def events(
    answer: http.client.HTTPResponse, image: str, causes: Sequence[Cause]
) -> Iterator[dict[str, Any]]:
    """Yield the lines of Docker's answer about an image; raise the failure that it tells of.

    Docker 28 deprecates `error`, which clients used to read, for `errorDetail`, which is as old.
    """
    if answer.status != http.client.OK:
        raise _failure(image, complaint(answer), causes)
    for line in answer:
        event = json.loads(line)
        if said := (event.get("errorDetail") or {}).get("message") or event.get("error"):
            raise _failure(image, said, causes)
        yield event


def _failure(image: str, said: str, causes: Sequence[Cause]) -> JobError | RetryableError:
    if known := meaning(said, causes):
        return JobError(f"{image}: {known}. Docker says: {said}")
    return RetryableError(f"{image}: Docker says: {said}")
