"""Docker's own API, at its socket: unlike its command line, it tells bytes."""

import http.client
import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
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
    with closing(Docker()) as docker:
        return docker.ask("GET", f"/images/{quote(image)}/json").status == http.client.OK


def complaint(answer: http.client.HTTPResponse) -> str:
    """Return what Docker says in an answer that is no success."""
    said: str = json.loads(answer.read() or b"{}").get("message", f"status {answer.status}")
    return said


def events(
    answer: http.client.HTTPResponse, image: str, causes: Sequence[Cause]
) -> Iterator[dict[str, Any]]:
    """Yield the lines of Docker's answer about an image.

    Docker 28 deprecates `error`, which clients used to read, for `errorDetail`, which is as old.

    Raises:
        JobError: Docker tells of a failure with a known cause.
        RetryableError: It tells of another.
    """
    if answer.status != http.client.OK:
        _raise(image, complaint(answer), causes)
    for line in answer:
        event = json.loads(line)
        if said := (event.get("errorDetail") or {}).get("message") or event.get("error"):
            _raise(image, said, causes)
        yield event


def _raise(image: str, said: str, causes: Sequence[Cause]) -> NoReturn:
    for words, meaning in causes:
        if any(word in said.lower() for word in words):
            raise JobError(f"{image}: {meaning}. Docker says: {said}")
    raise RetryableError(f"{image}: Docker says: {said}")
