"""The worker copies weights from the head, by the programs that their units run."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sparkwright.artifacts.weights.weights import manifest_text
from tests.clock import patience
from tests.component.servers import until
from tests.makers.fetching import NAME, SIZE, Spark
from tests.makers.share import Lender, Line, lending

BLOCK = 64 * 1024


@dataclass
class Worker(Spark):
    """A Spark whose manifest names the head's share."""

    line: Line

    def order(self) -> None:
        text = manifest_text(self.locked, share=f"http://127.0.0.1:{self.line.port}/weights/{NAME}")
        (self.root / f"manifests/{NAME}.json").write_text(text)


@pytest.fixture
def worker(head: Spark, lender: Lender, tmp_path: Path) -> Iterator[Worker]:
    root = tmp_path / "worker"
    for folder in ("manifests", "jobs", "secrets"):
        (root / folder).mkdir(parents=True)
    line = Line(lender.port)
    worker = Worker(root, head.source, head.url, head.hub_root, head.locked, NAME, line)
    worker.order()
    yield worker
    line.close()


def test_copies_only_what_is_missing(worker: Worker) -> None:
    worker.succeed()
    assert worker.line.sent == worker.progress().done == worker.locked.size
    worker.succeed()
    assert worker.line.sent == worker.locked.size
    (worker.folder / "config.json").unlink()
    worker.succeed()
    assert worker.line.sent == worker.locked.size + worker.locked.files["config.json"].size


def test_goes_on_by_itself_when_the_head_is_back(worker: Worker, lender: Lender) -> None:
    worker.line.rate = SIZE // 8
    process = worker.begin()
    until(lambda: worker.partial_size() > 0)
    lender.kill()
    worker.line.cut()
    lender.start()
    worker.line.rate = 0
    _, errors = process.communicate(timeout=patience())
    assert process.returncode == 0
    assert "no whole answer from" in errors
    assert worker.wrong() == {}
    # What had come of a block was kept, but for less than a page.
    assert worker.line.sent < worker.locked.size + 4096


def test_a_second_run_fetches_the_rest(worker: Worker, lender: Lender) -> None:
    worker.line.rate = SIZE // 8
    process = worker.begin()
    until(lambda: worker.partial_size() > 0)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    had = worker.partial_size()
    worker.line.cut()
    before, worker.line.rate = worker.line.sent, 0
    worker.succeed()
    assert 0 < had < SIZE
    assert worker.line.sent - before == SIZE - had


def test_a_partial_file_that_is_damaged_is_fetched_again(worker: Worker) -> None:
    file = worker.locked.files["model.safetensors"]
    partial = worker.folder / f".sparkwright-partial/{str(file.sha256)[:16]}-model.safetensors"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"?" * BLOCK)
    assert "arrived damaged (1 of 3 times)" in worker.succeed()


def test_what_the_head_verified_may_still_be_damaged(worker: Worker, head: Spark) -> None:
    file = head.folder / "model.safetensors"
    right = file.read_bytes()[:1]
    replace_begin(file, b"?")
    assert "arrived with a wrong hash 3 times" in worker.refuse()
    replace_begin(file, right)


def replace_begin(file: Path, text: bytes) -> None:
    """Change a file and leave its date."""
    stat = file.stat()
    with file.open("r+b") as content:
        content.write(text)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_what_the_head_has_not_yet(worker: Worker, head: Spark) -> None:
    record = head.folder / ".sparkwright.json"
    text = record.read_text()
    record.unlink()
    process = worker.begin()
    path = worker.root / NAME / ".sparkwright-progress.json"
    until(lambda: path.exists() and f"{NAME} is not here yet" in worker.progress().message)
    record.write_text(text)
    process.communicate(timeout=patience())
    assert process.returncode == 0
    assert worker.wrong() == {}


def test_what_the_head_never_gets(worker: Worker) -> None:
    files = dict(worker.locked.files)
    files["config.json"] = files["config.json"].model_copy(update={"git": "1" * 40})
    worker.locked = worker.locked.model_copy(update={"files": files})
    worker.order()
    message = worker.refuse()
    assert f"config.json of {NAME} is not verified here yet, again and again" in message
    assert message.endswith("then run again, which goes on where this ended.")


def test_nobody_lends(worker: Worker, lender: Lender) -> None:
    lender.kill()
    worker.line.close()
    message = worker.refuse()
    assert "no answer from 127.0.0.1" in message
    assert "look at fabric-share.socket on that Spark, and at the cable" in message


def test_a_file_in_the_middle_of_which_the_disk_is_full(worker: Worker) -> None:
    (worker.folder / ".sparkwright-partial").mkdir(parents=True)
    for path, file in worker.locked.files.items():
        name = f"{(file.sha256 or file.git or '')[:16]}-{path.replace('/', '%')}"
        (worker.folder / ".sparkwright-partial" / name).symlink_to("/dev/full")
    assert "and run again" in worker.refuse()


def test_a_worker_that_is_refused_says_so_at_once(worker: Worker, head: Spark) -> None:
    with lending(head.root, clients=["127.0.0.9"]) as other:
        line = worker.line = Line(other.port)
        worker.order()
        assert "refuses this Spark: lent to 127.0.0.9 only" in worker.refuse()
        line.close()
