"""A replica copies weights from another one, and gets from the hub whatever that does not give."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clock import patience
from tests.component.fetch.conftest import NAME, SIZE, WEIGHTS, Spark
from tests.component.fetch.pair import Lender, Line, lending
from tests.component.servers import free_port, until
from tests.lab import hub

LENT = f"{NAME}-theirs"


@dataclass
class Borrower(Spark):
    """A Spark whose orders name a lender, whose folder has another name, beside the hub."""

    line: Line

    def order(self) -> None:
        super().order()
        lender = f"http://127.0.0.1:{self.line.port}/weights/{LENT}"
        (self.root / f"manifests/{self.name}.lender").write_text(f"{lender}\n")

    def from_hub(self) -> int:
        """Bytes of the weights that the hub has sent to this Spark."""
        return self.sent.get(WEIGHTS, {"bytes": 0})["bytes"] - self.before

    def __post_init__(self) -> None:
        self.before = self.sent.get(WEIGHTS, {"bytes": 0})["bytes"]
        self.requests = sum(each["requests"] for each in self.sent.values())

    def asked_hub(self) -> int:
        """Requests for files that the hub has had of this Spark."""
        return sum(each["requests"] for each in self.sent.values()) - self.requests


@pytest.fixture
def borrower(head: Spark, lender: Lender, tmp_path: Path) -> Iterator[Borrower]:
    theirs = head.root / LENT
    if not theirs.exists():
        theirs.symlink_to(NAME)
    root = tmp_path / "borrower"
    for folder in ("manifests", "jobs", "secrets"):
        (root / folder).mkdir(parents=True)
    line = Line(lender.port)
    borrower = Borrower(root, head.source, head.url, head.hub_root, head.locked, NAME, line)
    borrower.order()
    yield borrower
    line.close()
    hub.clear_faults(head.url)


def test_the_hub_is_not_asked_for_what_is_lent(borrower: Borrower, lender: Lender) -> None:
    borrower.succeed()
    assert borrower.line.sent == borrower.locked.size
    assert borrower.asked_hub() == 0
    assert borrower.progress().message == f"from 127.0.0.1:{borrower.line.port}"


def test_nobody_lends(borrower: Borrower) -> None:
    unused = borrower.line.port = free_port()
    borrower.order()
    begun = time.monotonic()
    borrower.succeed()
    assert time.monotonic() - begun < patience(10)
    assert borrower.from_hub() == SIZE
    message = borrower.progress().message
    # An empty one comes by itself.
    said = f"3 of its files from {borrower.url}, not 127.0.0.1:{unused}"
    assert message.startswith(f"{said}: no answer from 127.0.0.1:{unused}")
    assert message.endswith("again and again: look at lan-share.socket on that Spark.")


def test_a_lender_that_refuses(borrower: Borrower, head: Spark) -> None:
    with lending(head.root, clients=["127.0.0.9"]) as other:
        line = borrower.line = Line(other.port)
        borrower.order()
        errors = borrower.succeed()
        line.close()
    assert borrower.from_hub() == SIZE
    assert "refuses this Spark: lent to 127.0.0.9 only" in errors


def test_a_lender_that_has_nothing_yet(borrower: Borrower, head: Spark) -> None:
    (head.root / LENT).unlink()
    begun = time.monotonic()
    borrower.succeed()
    assert time.monotonic() - begun < patience(10)
    assert "is not here yet" in borrower.progress().message


def test_a_lender_that_lacks_one_file(borrower: Borrower, head: Spark) -> None:
    file = head.folder / "config.json"
    stat = file.stat()
    os.utime(file, (1, 1))
    try:
        borrower.succeed()
    finally:
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert borrower.from_hub() == 0
    assert borrower.asked_hub() == 1
    assert borrower.progress().message.startswith(f"1 of its files from {borrower.url}")


def test_a_lender_that_dies_on_the_way(borrower: Borrower, lender: Lender) -> None:
    """The hub goes on where it ended."""
    borrower.line.rate = SIZE // 8
    process = borrower.begin(tries=3)
    until(lambda: borrower.partial_size() > 0)
    lender.kill()
    borrower.line.close()
    borrower.line.cut()
    _, errors = process.communicate(timeout=patience())
    assert process.returncode == 0, errors
    assert borrower.wrong() == {}
    assert 0 < borrower.from_hub() < SIZE
    assert "model.safetensors comes from" in errors


def test_what_the_lender_gives_may_be_damaged(borrower: Borrower, head: Spark) -> None:
    """Its disk has lost a bit since it was verified: the hub has the right one."""
    file = head.folder / "model.safetensors"
    stat, right = file.stat(), file.read_bytes()[:1]
    _overwrite(file, b"?", stat)
    try:
        assert "arrived damaged (1 of 3 times)" in borrower.succeed()
    finally:
        _overwrite(file, right, stat)
    assert borrower.from_hub() == SIZE
    assert "1 of its files from" in borrower.progress().message


def _overwrite(file: Path, text: bytes, stat: os.stat_result) -> None:
    with file.open("r+b") as content:
        content.write(text)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_neither_gives_it(borrower: Borrower, head: Spark) -> None:
    (head.root / LENT).unlink()
    borrower.fault("404", path=WEIGHTS)
    assert "has no file model.safetensors any more (404" in borrower.refuse()
