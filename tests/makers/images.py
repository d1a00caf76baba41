"""The image of a pair: a Spark's root folder and its Docker, and a head that sends an image."""

import json
import random
import socketserver
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sparkwright.common.progress import JobProgress
from tests.clock import patience
from tests.component.servers import serving
from tests.makers.docker import Docker, image_files, serving_docker
from tests.makers.fetching import TRIES
from tests.programs import changed_program

REFERENCE = f"example.org:5000/lab/vllm@sha256:{'5' * 64}"
LAYERS = [random.Random(seed).randbytes(1024 * 1024) for seed in (1, 2)]
ID, FILES = image_files(*LAYERS)
# By which its Spark knows an image that came with this name.
NAMED = f"{ID}/tag?repo=example.org:5000/lab/vllm&tag={'5' * 12}"
PROGRAM = """
import pathlib, sys
from host import command
from host.common import retry
from host.artifacts.image import docker_socket, pull
docker_socket.SOCKET = pathlib.Path(sys.argv.pop(1))
retry.DELAYS = pull.DELAYS = (0.05,) * int(sys.argv.pop(1))
command.main()
"""


@dataclass
class Side:
    root: Path
    docker: Docker

    def begin(self, program: str, *words: str, tries: int = TRIES) -> subprocess.Popen[str]:
        command = changed_program(PROGRAM, self.docker.socket, tries, program, self.root, *words)
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def run(self, program: str, *words: str, tries: int = TRIES) -> tuple[int, str]:
        process = self.begin(program, *words, tries=tries)
        _, errors = process.communicate(timeout=patience())
        return process.returncode, errors

    def progress(self, job: str) -> JobProgress:
        return JobProgress(**json.loads((self.root / f"jobs/{job}.json").read_text()))

    def order(self, job: str, **data: object) -> None:
        (self.root / f"manifests/{job}.json").write_text(json.dumps(data))


@contextmanager
def side(root: Path) -> Iterator[Side]:
    for folder in ("manifests", "jobs"):
        (root / folder).mkdir(parents=True)
    with serving_docker(root / "docker.sock") as docker:
        yield Side(root, docker)


@dataclass
class Head:
    """Sends one image, as `docker save` does; the next connections end after `cuts` bytes."""

    port: int
    data: bytes
    cuts: list[int] = field(default_factory=list)
    rate: int = 0
    asked: int = 0

    @property
    def address(self) -> tuple[str, int]:
        return "127.0.0.1", self.port


@contextmanager
def sending(data: bytes) -> Iterator[Head]:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            head.asked += 1
            rest = memoryview(head.data)[: head.cuts.pop(0) if head.cuts else None]
            with suppress(OSError):
                while rest:
                    self.request.sendall(rest[:65536])
                    rest = rest[65536:]
                    time.sleep(65536 / head.rate if head.rate else 0)

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    head = Head(server.server_address[1], data)
    with serving(server):
        yield head
