"""pull-image as the unit runs it, against a stand-in for Docker's socket."""

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from host.artifacts.image.pull import Pull
from sparkwright.common.progress import JobProgress
from tests.clock import patience
from tests.makers.docker import listening
from tests.programs import changed_program

IMAGE = f"example.org/vllm@sha256:{'5' * 64}"
PROGRAM = """
import pathlib, sys
from host.artifacts.image import docker_socket, pull
docker_socket.SOCKET, pull.DELAYS = pathlib.Path(sys.argv.pop(1)), (0.05, 0.05)
pull.command()
"""

# As Docker 26 with the overlay2 store says it; ids and sizes shortened.
PULL: list[dict[str, Any]] = [
    {"status": "Pulling from vllm", "id": IMAGE.partition("@")[2]},
    {"status": "Pulling fs layer", "progressDetail": {}, "id": "aaa"},
    {"status": "Already exists", "progressDetail": {}, "id": "bbb"},
    {"status": "Downloading", "progressDetail": {"current": 400, "total": 1000}, "id": "aaa"},
    {"status": "Verifying Checksum", "progressDetail": {}, "id": "aaa"},
    {"status": "Download complete", "progressDetail": {}, "id": "aaa"},
    {"status": "Extracting", "progressDetail": {"current": 700, "total": 1000}, "id": "aaa"},
    {"status": "Pull complete", "progressDetail": {}, "id": "aaa"},
    {"status": f"Digest: {IMAGE.partition('@')[2]}"},
    {"status": f"Status: Downloaded newer image for {IMAGE}"},
]


@dataclass
class Docker:
    """What the stand-in answers, one script after the other: (status, lines)."""

    root: Path
    scripts: list[tuple[int, list[dict[str, Any]]]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    has_image: bool = False
    logins: list[str | None] = field(default_factory=list)
    said: str = ""

    def pull(self, login: str | None = None) -> tuple[int, JobProgress]:
        environment = dict(os.environ)
        if login is not None:
            # As systemd gives it to the unit: LoadCredential, or SetCredential without a file.
            (self.root / "credentials").mkdir(exist_ok=True)
            (self.root / "credentials/login").write_text(f"{login}\n")
            environment["CREDENTIALS_DIRECTORY"] = str(self.root / "credentials")
        process = subprocess.run(
            changed_program(PROGRAM, self.root / "docker.sock", self.root, "555"),
            capture_output=True,
            text=True,
            timeout=patience(),
            env=environment,
        )
        self.said = process.stdout + process.stderr
        report = (self.root / "jobs/image@555.json").read_text()
        return process.returncode, JobProgress(**json.loads(report))

    def refuse(self, login: str | None = None) -> str:
        status, progress = self.pull(login)
        assert (status, progress.phase) == (1, "failed")
        return progress.message


@pytest.fixture
def docker(tmp_path: Path) -> Iterator[Docker]:
    for folder in ("jobs", "manifests"):
        (tmp_path / folder).mkdir()
    orders = {"image": IMAGE, "registry": "example.org", "size": 1200}
    (tmp_path / "manifests/image@555.json").write_text(json.dumps(orders))
    docker = Docker(tmp_path)

    class Handler(BaseHTTPRequestHandler):
        def address_string(self) -> str:
            return "socket"

        def do_POST(self) -> None:
            docker.requests.append(self.path)
            docker.logins.append(self.headers["X-Registry-Auth"])
            status, lines = docker.scripts.pop(0)
            docker.has_image = status == 200 and not any(
                {"error", "errorDetail"} & set(line) for line in lines
            )
            self.send_response(status)
            self.end_headers()
            for line in lines:
                self.wfile.write(json.dumps(line).encode() + b"\r\n")

        def do_GET(self) -> None:
            docker.requests.append(self.path)
            self.send_response(200 if docker.has_image else 404)
            self.end_headers()

    with listening(tmp_path / "docker.sock", Handler):
        yield docker


def test_pulls_by_digest(docker: Docker) -> None:
    docker.scripts = [(200, PULL)]
    assert docker.pull() == (0, JobProgress("done", 1000, 1000, ""))
    assert docker.requests == [
        f"/images/create?fromImage=example.org/vllm&tag=sha256:{'5' * 64}",
        f"/images/{IMAGE.replace('@', '%40').replace(':', '%3A')}/json",
    ]


@pytest.mark.parametrize(
    ("status", "said", "meaning"),
    [
        (404, "manifest for x not found: manifest unknown", "the registry has no such image"),
        (404, "pull access denied for x", "example.org wants a login, and this job got none"),
        (500, "Head https://x: unauthorized", "machine that runs Sparkwright, `docker login ex"),
        (500, "no matching manifest for linux/arm64/v8", "not made for this machine's processor"),
        (500, "Get https://x: server gave HTTP response to HTTPS client", "speaks no TLS"),
    ],
)
def test_says_plainly_what_a_person_must_mend(
    docker: Docker, status: int, said: str, meaning: str
) -> None:
    docker.scripts = [(status, [{"message": said}])]
    message = docker.refuse()
    assert meaning in message
    assert message.startswith(IMAGE)
    assert message.endswith(f"Docker says: {said}")


LOGIN = json.dumps({"username": "reader", "password": "s3cret-of-reader"})


@pytest.mark.parametrize("empty", [None, ""])
def test_without_a_login_docker_gets_none(docker: Docker, empty: str | None) -> None:
    docker.scripts = [(200, PULL)]
    assert docker.pull(empty)[0] == 0
    assert docker.logins == [None]


def test_docker_gets_the_login_with_each_try_and_nobody_else(docker: Docker) -> None:
    docker.scripts = [(500, [{"message": "no such host"}]), (200, PULL)]
    assert docker.pull(LOGIN)[0] == 0
    assert [base64.urlsafe_b64decode(each or "").decode() for each in docker.logins] == [LOGIN] * 2
    assert "s3cret" not in docker.said
    assert "s3cret" not in (docker.root / "jobs/image@555.json").read_text()


def test_a_login_that_the_registry_refuses(docker: Docker) -> None:
    docker.scripts = [(500, [{"message": "Get https://x/v2/: unauthorized: bad password"}])]
    message = docker.refuse(LOGIN)
    assert "example.org gives no access to the login of reader: on the machine that" in message
    assert "`docker login example.org`, and run again" in message
    assert "s3cret" not in message + docker.said


FULL = "write /var/lib/docker/tmp/x: no space left on device"


@pytest.mark.parametrize(
    "told",
    # Docker 28 deprecates `error`; those before tell both, or of old `error` alone.
    [
        {"errorDetail": {"message": FULL}, "error": FULL},
        {"errorDetail": {"message": FULL}},
        {"error": FULL},
    ],
)
def test_a_full_disk_shows_in_the_middle(docker: Docker, told: dict[str, object]) -> None:
    docker.scripts = [(200, [*PULL[:6], told])]
    assert "the disk is full: free some space" in docker.refuse()


def test_gives_up_after_some_tries(docker: Docker) -> None:
    docker.scripts = [(500, [{"message": "connection refused"}])] * 3
    said = f"{IMAGE}: Docker says: connection refused, again and again: try later."
    assert docker.refuse() == said
    assert docker.scripts == []
    (docker.root / "docker.sock").unlink()
    assert "Docker does not answer" in docker.refuse()


def test_phases() -> None:
    pull = Pull(1200)
    seen = []
    for event in PULL:
        pull.note(event)
        seen.append(pull.measure())
    assert seen[3] == ("downloading", 400, 1200)
    assert seen[4] == ("extracting", 0, 1000)
    assert seen[6] == ("extracting", 700, 1000)
    assert seen[-1] == ("extracting", 1000, 1000)
