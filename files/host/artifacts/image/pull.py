"""pull-image ROOT ID: have Docker pull the image that ROOT/manifests/image@ID.json names.

Docker's own API tells bytes, which `docker pull` does not where nobody watches. A login for the
registry is the file `login` in CREDENTIALS_DIRECTORY: what Docker takes as X-Registry-Auth.
Exit status: 0 the image is here, 1 it is not; ROOT/jobs/image@ID.json says why.
"""

import base64
import http.client
import json
import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from host.artifacts.image.docker_socket import FULL, Cause, Docker, events, is_here
from host.common.command_line import words
from host.common.progress import Progress
from host.common.retry import RetryableError, retry, run_job

# Seconds before each further try: Docker itself tries each layer five times.
DELAYS = (2, 10, 30, 60)

# What a layer's status says of it; those of other statuses are not begun yet.
FETCHED = ("Verifying Checksum", "Download complete", "Extracting", "Pull complete")

# Docker's words where a registry wants a login, or another one.
NO_ACCESS = ("unauthorized", "authentication required", "no basic auth", "denied", "forbidden")

# Docker's words -> what they mean, and what helps.
CAUSES = (
    (("no matching manifest",), "the image was not made for this machine's processor"),
    FULL,
    (
        ("manifest unknown", "not found", "no such image"),
        "the registry has no such image: check its name, "
        "or refresh the lock (sparkwright lock --refresh)",
    ),
    (("server gave http response to https client",), "the registry speaks no TLS"),
)


class Pull:
    """The progress of each layer, by what Docker says of it."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._fetched: dict[str, int] = {}
        self._extracted: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self._waiting: set[str] = set()

    def measure(self) -> tuple[str, int, int]:
        """Return phase, bytes done and bytes in total; both count the layers as packed."""
        if self._fetched and not self._waiting:
            return "extracting", sum(self._extracted.values()), sum(self._sizes.values())
        return "downloading", sum(self._fetched.values()), self._total

    def note(self, event: dict[str, Any]) -> None:
        """Take in one line of Docker's answer."""
        layer, status = event.get("id"), event.get("status", "")
        if layer is None or status.startswith("Pulling from"):
            return
        detail = event.get("progressDetail") or {}
        current, size = detail.get("current", 0), detail.get("total", 0)
        if status == "Downloading":
            self._sizes[layer] = max(size, self._sizes.get(layer, 0))
            self._fetched[layer] = current
        elif status in FETCHED:
            self._fetched[layer] = self._sizes.setdefault(layer, size)
            # In the containerd store Docker counts seconds here: they have no total.
            if status == "Extracting" and size:
                self._extracted[layer] = current
            if status == "Pull complete":
                self._extracted[layer] = self._sizes[layer]
        if status in FETCHED or status == "Already exists":
            self._waiting.discard(layer)
        else:
            self._waiting.add(layer)


def causes(registry: str, login: str) -> Sequence[Cause]:
    """Return the known causes of failed pulls, with that of a login in this job's words."""
    remedy = f"on the machine that runs Sparkwright, `docker login {registry}`, and run again"
    if not login:
        meaning = f"{registry} wants a login, and this job got none: {remedy}"
    else:
        user = json.loads(login).get("username", "an identity token")
        meaning = f"{registry} gives no access to the login of {user}: {remedy}"
    return (*CAUSES, (NO_ACCESS, meaning))


def pull(image: str, registry: str, login: str, layers: Pull) -> None:
    """Have Docker pull an image, `repository@digest`, and note what it says on the way."""
    repository, _, digest = image.partition("@")
    address = f"/images/create?fromImage={quote(repository)}&tag={digest}"
    auth = base64.urlsafe_b64encode(login.encode()).decode()
    with closing(Docker()) as docker:
        answer = docker.ask("POST", address, {"X-Registry-Auth": auth} if login else {})
        try:
            for event in events(answer, image, causes(registry, login)):
                layers.note(event)
        except (OSError, http.client.HTTPException, ValueError):
            raise RetryableError("Docker ended in the middle of the pull") from None
    if not is_here(image):
        raise RetryableError("Docker has pulled the image, but does not have it")


def main(root: Path, job: str) -> None:
    """Do the job; every end but success is raised."""
    orders = json.loads((root / "manifests" / f"image@{job}.json").read_text("utf-8"))
    image, layers = orders["image"], Pull(orders["size"])
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    login = Path(folder, "login").read_text("utf-8").strip() if folder else ""

    def attempt() -> None:
        pull(image, orders["registry"], login, layers)

    with Progress(root / "jobs" / f"image@{job}.json", layers.measure) as progress:
        retry(attempt, lambda: 0, progress, image, delays=DELAYS)


def command() -> None:
    """Pulls the image of a job."""
    root, job = words(__doc__, "ROOT", "ID")
    run_job(lambda: main(Path(root), job))
