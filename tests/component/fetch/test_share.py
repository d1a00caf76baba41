"""What the head lends, to whom, and how the worker copies it: by the programs of their units."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest

from host.artifacts.weights.checkpoint import Record
from host.artifacts.weights.record import LARGEST_RECORD
from sparkwright.artifacts.weights.weights import manifest_text
from tests.clock import patience
from tests.component.servers import free_port, until
from tests.makers import fetching
from tests.makers.fetching import NAME, SIZE, Spark
from tests.makers.share import Lender, Line, lending

BLOCK = 64 * 1024


@dataclass
class Worker(Spark):
    """A Spark whose manifest names the head's share, after others'."""

    line: Line
    others: Sequence[int] = ()

    def order(self) -> None:
        ports = (*self.others, self.line.port)
        shares = [f"http://127.0.0.1:{port}/weights/{NAME}" for port in ports]
        text = manifest_text(self.locked, shares=shares)
        (self.root / f"manifests/{NAME}.json").write_text(text)


@contextmanager
def working(head: Spark, lender: Lender, root: Path, *others: int) -> Iterator[Worker]:
    for folder in ("manifests", "jobs", "secrets"):
        (root / folder).mkdir(parents=True)
    line = Line(lender.port)
    worker = Worker(root, head.source, head.url, head.hub_root, head.locked, NAME, line, others)
    worker.order()
    yield worker
    line.close()


@pytest.fixture
def worker(head: Spark, lender: Lender, tmp_path: Path) -> Iterator[Worker]:
    with working(head, lender, tmp_path / "worker") as worker:
        yield worker


def test_who_copies_lends_each_file_while_it_comes(
    worker: Worker, head: Spark, lender: Lender, tmp_path: Path
) -> None:
    worker.line.rate = SIZE // 16
    with (
        lending(worker.root) as second,
        working(head, lender, tmp_path / "third", second.port) as third,
    ):
        late, early = third.begin(), worker.begin()
        until(lambda: third.partial_size() > 0)
        assert not (worker.folder / "model.safetensors").exists()
        worker.line.rate = 0
        assert early.wait(patience()) == late.wait(patience()) == 0
        assert (third.wrong(), third.line.sent) == ({}, 0)


def test_the_head_lends_in_the_place_of_another_that_does_not(
    head: Spark, lender: Lender, tmp_path: Path
) -> None:
    (tmp_path / "nothing").mkdir()
    with lending(tmp_path / "nothing") as second:
        for port in (free_port(), second.port):
            with working(head, lender, tmp_path / f"worker-{port}", port) as worker:
                said = worker.succeed()
                assert f"From now on http://127.0.0.1:{worker.line.port}/" in said
                assert worker.line.sent == worker.locked.size


def test_the_head_lends_the_rest_of_what_comes_no_further(
    worker: Worker, head: Spark, lender: Lender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = fetching.PROGRAM.replace("(0.1,) * 100", "(0.1,) * 3")
    monkeypatch.setattr(fetching, "PROGRAM", program)
    (digest,) = (file.sha256 for path, file in head.locked.files.items() if "model" in path)
    partial = worker.folder / f".sparkwright-partial/{str(digest)[:16]}-model.safetensors"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(head.original("model.safetensors")[: SIZE // 2])
    with (
        lending(worker.root) as second,
        working(head, lender, tmp_path / "third", second.port) as third,
    ):
        assert "From now on" in third.succeed()
        assert third.line.sent == third.locked.size - SIZE // 2


def test_what_grows_wrong_is_copied_again(
    worker: Worker, head: Spark, lender: Lender, tmp_path: Path
) -> None:
    (digest,) = (file.sha256 for path, file in head.locked.files.items() if "model" in path)
    partial = worker.folder / f".sparkwright-partial/{str(digest)[:16]}-model.safetensors"
    partial.parent.mkdir(parents=True)
    partial.write_bytes(b"?" * BLOCK)
    worker.line.rate = SIZE // 2
    with (
        lending(worker.root) as second,
        working(head, lender, tmp_path / "third", second.port) as third,
    ):
        late = third.begin()
        until(lambda: third.partial_size() > 0)
        assert "arrived damaged (1 of 3 times)" in worker.succeed()
        _, errors = late.communicate(timeout=patience())
        assert late.returncode == 0
        assert "arrived damaged (1 of 3 times)" in errors
        assert third.wrong() == {}


def test_what_another_lends_damaged_comes_from_the_head(
    worker: Worker, head: Spark, lender: Lender, tmp_path: Path
) -> None:
    """Its disk or memory is bad: to its record, the file is as it was verified."""
    worker.succeed()
    damaged = worker.folder / "model.safetensors"
    found = damaged.stat()
    with damaged.open("r+b") as file:
        file.write(b"?" * BLOCK)
    os.utime(damaged, ns=(found.st_atime_ns, found.st_mtime_ns))
    with (
        lending(worker.root) as second,
        working(head, lender, tmp_path / "third", second.port) as third,
    ):
        said = third.succeed()
        assert said.count("arrived damaged") == 1
        assert (third.wrong(), third.line.sent) == ({}, SIZE)


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
    assert f"config.json of {NAME} is not here yet, again and again" in message
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


def address(spark: Spark, path: str = "config.json") -> str:
    file = spark.locked.files[path]
    return f"/weights/{NAME}/{path}?hash={file.sha256 or file.git}"


# {hash} is that of config.json.
NOT_LENT = f"""\
/ /weights /weights/{NAME} /weights/{NAME}/config.json /weights/{NAME}/config.json?hash=
/weights/{NAME}/.sparkwright.json?hash=x /weights/{NAME}/../{NAME}/config.json?hash={{hash}}
/weights/{NAME}/%2e%2e/{NAME}/config.json?hash={{hash}} /weights/./{NAME}/config.json?hash={{hash}}
/weights/../root/{NAME}/config.json?hash={{hash}} /weights//etc/passwd //etc/passwd /images/..
/images/../{NAME}/config.json?hash={{hash}} /secrets/hf-token /weights/secrets/hf-token?hash=x
/weights/{NAME}/hf-token?hash=/../../../secrets&size=10 /weights/{NAME}/x?hash=../..&size=1e9
"""


def test_nothing_else_is_lent(head: Spark, lender: Lender) -> None:
    (head.root / "secrets/hf-token").write_text("hf_secret\n")
    digest = head.locked.files["config.json"].git or ""
    for path in NOT_LENT.split():
        status, said = lender.get(path.replace("{hash}", digest))
        assert (status, bool(said)) == (404, True), path
        assert "secret" not in said.replace("secrets", ""), path


def test_a_file_that_was_changed_since_it_was_verified(spark: Spark) -> None:
    spark.succeed()
    place = spark.folder / "config.json"
    os.utime(place, (1, 1))
    with lending(spark.root) as lender:
        changed = f"config.json of {NAME} was changed here since it was verified"
        assert lender.get(address(spark)) == (404, changed)
        place.rename(spark.folder / "moved.json")
        place.symlink_to("moved.json")
        assert lender.get(address(spark))[0] == 404


def test_a_record_that_leads_elsewhere(spark: Spark) -> None:
    """Whoever fetches can write anything into it: here the true stamp of another file."""
    spark.succeed()
    secret = spark.root / "secrets/hf-token"
    secret.write_text("hf_secret\n")
    (spark.folder / "away").symlink_to(secret.parent)
    names = ("../secrets/hf-token", "sub/../../secrets/hf-token", "away/hf-token", str(secret))
    for name in names:
        Record(spark.folder).add(name, secret, "0" * 64)
    with lending(spark.root) as lender:
        for name in names:
            status, said = lender.get(f"/weights/{NAME}/{quote(name, safe='/')}?hash={'0' * 64}")
            assert status == 404, name
            assert "secret\n" not in said


def test_a_record_that_is_none(spark: Spark) -> None:
    spark.succeed()
    with lending(spark.root) as lender:
        for text in (
            "[]",
            '{"files": [1]}',
            '{"files": {"config.json": 1}}',
            '{"files": {"config.json": {"hash": {}}}}',
            "[" * 100_000,
            '{"files": {}, "x": "' + "x" * LARGEST_RECORD + '"}',
        ):
            (spark.folder / ".sparkwright.json").write_text(text)
            assert lender.get(address(spark))[0] == 404, text[:50]
            assert set(spark.wrong().values()) == {"has not been verified"}, text[:50]


def test_no_name_and_no_record_is_another_file(spark: Spark) -> None:
    spark.succeed()
    name = '\nother@0123", "hash": "x'
    (spark.folder / name).write_text("")
    (spark.folder / "linked").symlink_to("config.json")
    assert spark.look().files.keys() == {*spark.locked.files, name}
    assert spark.wrong() == {name: "is not part of the checkpoint"}


def test_ranges(head: Spark, lender: Lender) -> None:
    assert lender.get(address(head), more="Range: bytes=2-\r\n") == (206, 'model_type": "tiny"}\n')
    assert lender.get(address(head), more="Range: bytes=24-\r\n")[0] == 416
    assert lender.get(address(head), more="Range: bytes=-5\r\n")[0] == 416


def test_ends_when_nobody_asks(head: Spark) -> None:
    with lending(head.root, idle=patience(2)) as lender:
        assert lender.get(address(head))[0] == 206
        assert lender.process.wait(timeout=patience()) == 0
