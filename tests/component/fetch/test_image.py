"""An image from the head's Docker to the worker's: export, share, copy, run as by their units."""

import json
import random
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from sparkwright.common.progress import JobProgress, parse_progress
from tests.clock import patience
from tests.component.docker import Docker, image_files, serving_docker
from tests.component.fetch.conftest import TRIES
from tests.component.fetch.pair import Line, lending
from tests.component.servers import until
from tests.programs import changed_program

REFERENCE = f"example.org:5000/lab/vllm@sha256:{'5' * 64}"
BLOCK = 64 * 1024
LAYERS = [random.Random(seed).randbytes(1024 * 1024) for seed in (1, 2)]
ID, FILES = image_files(*LAYERS)
SIZE = sum(map(len, FILES.values()))
PROGRAM = """
import pathlib, sys
from host import command
from host.common import retry
from host.image import docker_socket
from host.weights import hashing_file, peer_source
docker_socket.SOCKET, hashing_file.BLOCK = pathlib.Path(sys.argv.pop(1)), 64 * 1024
retry.DELAYS = peer_source.DELAYS = (0.05,) * int(sys.argv.pop(1))
command.main()
"""


@dataclass
class Side:
    """One Spark: its root folder and its Docker."""

    root: Path
    docker: Docker

    def begin(self, program: str, *arguments: str, tries: int = TRIES) -> subprocess.Popen[str]:
        command = changed_program(PROGRAM, self.docker.socket, tries, program)
        return subprocess.Popen(
            [*command, str(self.root), *arguments], stderr=subprocess.PIPE, text=True
        )

    def run(self, program: str, *arguments: str, tries: int = TRIES) -> tuple[int, str]:
        process = self.begin(program, *arguments, tries=tries)
        _, errors = process.communicate(timeout=patience())
        return process.returncode, errors

    def progress(self, job: str) -> JobProgress:
        progress = parse_progress((self.root / f"jobs/{job}.json").read_text())
        assert progress
        return progress

    def order(self, job: str, **data: object) -> None:
        (self.root / f"manifests/{job}.json").write_text(json.dumps(data))


@contextmanager
def side(root: Path) -> Iterator[Side]:
    for folder in ("manifests", "jobs", "exports", "imports"):
        (root / folder).mkdir(parents=True)
    with serving_docker(root / "docker.sock") as docker:
        yield Side(root, docker)


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Side]:
    with side(tmp_path / "head") as head:
        head.docker.images[REFERENCE] = FILES
        head.order("image-export@555", image=REFERENCE)
        yield head


@pytest.fixture
def line(head: Side) -> Iterator[Line]:
    with lending(head.root) as lender:
        line = Line(lender.port)
        yield line
        line.close()


@pytest.fixture
def worker(tmp_path: Path, line: Line) -> Iterator[Side]:
    with side(tmp_path / "worker") as worker:
        source = f"http://127.0.0.1:{line.port}/images/555"
        worker.order("image-copy", images=[REFERENCE, f"sha256:{'5' * 64}", ID], source=source)
        yield worker


def export(head: Side) -> None:
    status, errors = head.run("export-image", "555")
    assert status == 0, errors
    assert head.progress("image-export@555").phase == "done"


def test_an_image_moves(head: Side, worker: Side, line: Line) -> None:
    export(head)
    status, errors = worker.run("copy-image")
    assert status == 0, errors
    assert worker.docker.images == {ID: FILES}
    assert worker.progress("image-copy").phase == "done"
    assert list((worker.root / "imports").iterdir()) == []
    # Or `docker image prune` would remove it.
    assert worker.docker.names == [f"{ID}/tag?repo=example.org:5000/lab/vllm&tag={'5' * 12}"]


def test_one_that_docker_knows_by_its_id_alone(head: Side, worker: Side) -> None:
    """One that was loaded, and not pulled, has lost the name by which it is pulled."""
    head.docker.images = {ID: FILES}
    head.order("image-export@555", image=REFERENCE, images=[REFERENCE, ID])
    export(head)
    assert worker.run("copy-image")[0] == 0
    assert worker.docker.images == {ID: FILES}


def test_an_export_that_is_there_is_not_made_again(head: Side) -> None:
    export(head)
    before = (head.root / "exports/555/.sparkwright.json").read_text()
    head.docker.images.clear()
    export(head)
    progress = head.progress("image-export@555")
    assert (progress.done, progress.total) == (0, 0)
    assert (head.root / "exports/555/.sparkwright.json").read_text() == before


def test_a_copy_that_was_cut_fetches_the_rest(head: Side, worker: Side, line: Line) -> None:
    export(head)
    line.rate = SIZE // 8
    process = worker.begin("copy-image")
    partial = worker.root / "imports/.sparkwright-partial"

    def come() -> int:
        try:
            return sum(file.stat().st_size for file in partial.glob("*-blobs*"))
        except FileNotFoundError:
            # It is whole, and in its place.
            return 0

    until(lambda: come() > 0)
    process.kill()
    process.communicate()
    had = come()
    line.cut()
    before, line.rate = line.sent, 0
    status, errors = worker.run("copy-image")
    assert status == 0, errors
    assert worker.docker.images == {ID: FILES}
    assert line.sent - before < SIZE - had + 2 * BLOCK


def test_the_worker_waits_for_an_export_in_the_making(head: Side, worker: Side) -> None:
    export(head)
    made = head.root / "exports/555"
    aside = made.rename(head.root / "exports/aside")
    process = worker.begin("copy-image")
    report = worker.root / "jobs/image-copy.json"
    until(lambda: report.exists() and "555 is not here yet" in report.read_text())
    aside.rename(made)
    process.communicate(timeout=patience())
    assert process.returncode == 0


def test_no_export(worker: Side) -> None:
    assert worker.run("copy-image", tries=3)[0] == 1
    assert "says: 555 is not here yet, again and again" in worker.progress("image-copy").message
    progress = worker.progress("image-copy")
    assert (progress.done, progress.total) == (0, 0)


def test_docker_is_full(head: Side, worker: Side) -> None:
    export(head)
    worker.docker.error = "write /var/lib/docker/tmp/x: no space left on device"
    assert worker.run("copy-image")[0] == 1
    assert "the disk is full: free some space" in worker.progress("image-copy").message
    # All that was fetched is kept for the next run.
    assert (worker.root / "imports/manifest.json").exists()


def test_the_head_has_another_image_than_the_lock(head: Side, worker: Side) -> None:
    export(head)
    orders = json.loads((worker.root / "manifests/image-copy.json").read_text())
    orders["images"][2] = f"sha256:{'6' * 64}"
    worker.order("image-copy", **orders)
    assert worker.run("copy-image")[0] == 1
    assert "another image than the lock" in worker.progress("image-copy").message


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda docker: docker.images.clear(), "run again, which pulls it. Docker says: No such"),
        (lambda docker: setattr(docker, "cut", SIZE // 2), "Docker ended in the middle"),
        (lambda docker: docker.socket.unlink(), "Docker does not answer"),
        (lambda docker: docker.images[REFERENCE].update({"../x": b""}), "no plain file"),
        (lambda docker: docker.images[REFERENCE].update({f"blobs/sha256/{'0' * 64}": b""}), "hash"),
    ],
)
def test_an_export_that_fails_leaves_nothing(
    head: Side, spoil: Callable[[Docker], object], said: str
) -> None:
    head.docker.images[REFERENCE] = dict(FILES)
    spoil(head.docker)
    assert head.run("export-image", "555")[0] == 1
    assert said in head.progress("image-export@555").message
    assert list((head.root / "exports").iterdir()) == []
