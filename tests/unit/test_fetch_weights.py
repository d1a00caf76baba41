"""fetch-weights as the unit runs it, against a hub on loopback that misbehaves."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from deploys.facts.jobs import WeightFolders
from deploys.plan.lock import CheckpointLock
from deploys.plan.progress import Progress, parse_progress
from deploys.plan.weights import Folder, differences, manifest_text, parse_folders
from deploys.resolve import resolve_checkpoint
from tests.lab import hub
from tests.lab.hub.server import Hub
from tests.unit.driven import this_machine

REPO = "lab/tiny"
WEIGHTS = f"{REPO}/model.safetensors"
SIZE = 3 * 1024 * 1024
JOBS = Path(__file__).parents[2] / "files" / "jobs"
# The delays between tries are the only thing that differs from the unit's own command.
PROGRAM = """
import sys; sys.path.insert(0, sys.argv.pop(1))
import hub; hub.DELAYS = (0.05, 0.05, 0.05)
import fetch_weights; fetch_weights.run()
"""


@dataclass
class Spark:
    """A root folder, and the hub that it fetches from."""

    root: Path
    source: Path
    url: str
    hub_root: Path
    locked: CheckpointLock

    @property
    def folder(self) -> Path:
        return self.root / "model"

    @property
    def fault(self) -> Callable[..., None]:
        return partial(hub.set_fault, hub=self.url)

    @property
    def sent(self) -> dict[str, dict[str, int]]:
        return hub.stats(self.url)

    def order(self) -> None:
        text = manifest_text(self.locked, self.url)
        (self.root / "manifests/model.json").write_text(text)

    def begin(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(JOBS), str(self.root), "model"],
            env={
                "PATH": os.environ["PATH"],
                "HF_HOME": str(self.root / "hf-home"),
                "HF_TOKEN_PATH": str(self.root / "secrets/hf-token"),
                "HF_HUB_DISABLE_PROGRESS_BARS": "1",
                "HF_HUB_DISABLE_TELEMETRY": "1",
            },
            stderr=subprocess.PIPE,
            text=True,
        )

    def fetch(self) -> tuple[int, str]:
        """Run the program to its end; return status and what it told the journal."""
        process = self.begin()
        _, errors = process.communicate(timeout=60)
        return process.returncode, errors

    def succeed(self) -> str:
        status, errors = self.fetch()
        assert status == 0, errors
        assert self.wrong() == {}
        assert self.progress().phase == "done"
        assert all((self.folder / p).read_bytes() == self.original(p) for p in self.locked.files)
        assert not (self.folder / ".sparkwright-partial").exists()
        return errors

    def refuse(self) -> str:
        """Run the program to a failure; return the sentence that a user gets."""
        status, _ = self.fetch()
        assert status == 1
        assert self.progress().phase == "failed"
        return self.progress().message

    def progress(self) -> Progress:
        progress = parse_progress((self.root / "jobs/weights@model.json").read_text())
        assert progress
        return progress

    def look(self) -> Folder:
        """Read the folder as an operation does, by the fact's own command."""
        with this_machine().current() as host:
            return host.get_fact(WeightFolders, root=str(self.root), folders=["model"])["model"]

    def wrong(self) -> dict[str, str]:
        return differences(self.locked, self.look())

    def original(self, path: str) -> bytes:
        return (self.source / path).read_bytes()


@pytest.fixture
def spark(tmp_path: Path) -> Iterator[Spark]:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "model.safetensors").write_bytes(random.Random(1).randbytes(SIZE))
    (source / "config.json").write_text('{"model_type": "tiny"}\n')
    (source / "sub/a name.txt").write_text("text\n" * 2000)
    (source / "empty.txt").write_text("")
    root = tmp_path / "root"
    for folder in ("manifests", "jobs", "secrets"):
        (root / folder).mkdir(parents=True)
    hub.add_commit(tmp_path / "hub", REPO, source)
    with Hub(tmp_path / "hub", ("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            locked = resolve_checkpoint(REPO, "main", url)
            spark = Spark(root, source, url, tmp_path / "hub", locked)
            spark.order()
            yield spark
        finally:
            server.shutdown()
            thread.join()


def test_fetches_all_then_nothing(spark: Spark) -> None:
    assert set(spark.wrong()) == set(spark.locked.files)
    spark.succeed()
    before = spark.sent
    spark.succeed()
    assert spark.sent == before
    assert spark.progress().done == spark.progress().total == spark.locked.size


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda file: file.unlink(), "is missing"),
        (lambda file: os.truncate(file, 1000), "has 1000 bytes instead of"),
        (lambda file: flip(file), "was changed since it was verified"),
        (lambda file: shutil.copy2(file, file.with_suffix(".x")), "is not part of the checkpoint"),
    ],
)
def test_notices_and_mends_one_file(
    spark: Spark, spoil: Callable[[Path], object], said: str
) -> None:
    spark.succeed()
    before = spark.sent
    spoil(spark.folder / "model.safetensors")
    assert [said in trouble for trouble in spark.wrong().values()] == [True]
    spark.succeed()
    fetched = {path for path in spark.sent if spark.sent[path] != before[path]}
    assert fetched == (set() if "not part" in said else {WEIGHTS})


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def test_a_flipped_byte_under_an_old_date_is_found_by_verify(spark: Spark) -> None:
    spark.succeed()
    file = spark.folder / "model.safetensors"
    stat = file.stat()
    with file.open("r+b") as content:
        content.seek(5)
        content.write(b"?")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert spark.wrong() == {}
    (spark.folder / ".sparkwright.json").unlink()
    spark.succeed()
    assert spark.sent[WEIGHTS]["requests"] == 2


def test_takes_over_a_folder_that_somebody_filled(spark: Spark) -> None:
    shutil.copytree(spark.source, spark.folder)
    (spark.folder / ".cache/huggingface/download").mkdir(parents=True)
    (spark.folder / "old.safetensors").write_text("a stranger's")
    (spark.folder / "config.json").unlink()
    (spark.folder / "config.json").symlink_to("/etc/hostname")
    spark.succeed()
    assert set(spark.sent) == {f"{REPO}/config.json"}
    aside = spark.folder / ".sparkwright-set-aside/old.safetensors"
    assert aside.read_text() == "a stranger's"
    assert not (spark.folder / ".cache/huggingface").exists()


def test_follows_the_lock_to_another_commit(spark: Spark) -> None:
    spark.succeed()
    (spark.source / "config.json").write_text('{"model_type": "tinier"}\n')
    (spark.source / "sub/a name.txt").unlink()
    hub.add_commit(spark.hub_root, REPO, spark.source)
    spark.locked = resolve_checkpoint(REPO, "main", spark.url)
    assert "sub/a name.txt" in spark.wrong()
    spark.order()
    before = spark.sent[WEIGHTS]
    assert "removed" in spark.succeed()
    assert spark.sent[WEIGHTS] == before
    assert not (spark.folder / "sub/a name.txt").exists()


def test_resumes_after_kill_without_fetching_again(spark: Spark) -> None:
    spark.fault("rate", path=WEIGHTS, rate=512 * 1024)
    process = spark.begin()
    begun = partial(partial_size, spark)
    wait_for(lambda: begun() > SIZE // 4)
    wait_for(lambda: spark.progress().phase == "downloading" and spark.progress().done > SIZE // 4)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    had = begun()
    assert 0 < had < SIZE
    hub.clear_faults(spark.url)
    sent = wait_for_still(lambda: spark.sent[WEIGHTS]["bytes"])
    spark.succeed()
    assert spark.sent[WEIGHTS]["bytes"] - sent == SIZE - had


def partial_size(spark: Spark) -> int:
    files = (spark.folder / ".sparkwright-partial").glob("*-model.safetensors")
    return max((file.stat().st_size for file in files), default=0)


def wait_for(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except FileNotFoundError:
            pass
        assert time.monotonic() < deadline
        time.sleep(0.02)


def wait_for_still(value: Callable[[], Any], seconds: float = 0.3) -> Any:
    """Return a value when it has not changed for a while: the hub counts until it notices."""
    last, since = value(), time.monotonic()
    while time.monotonic() - since < seconds:
        time.sleep(0.05)
        if (now := value()) != last:
            last, since = now, time.monotonic()
    return last


@pytest.mark.parametrize(
    ("fault", "options"),
    [
        ("500", {"times": 2}),
        ("429", {"times": 1, "seconds": 0}),
        ("reset", {"times": 2}),
        ("truncate", {"times": 2}),
        ("flip", {"times": 2}),
    ],
)
def test_gets_over_what_passes(spark: Spark, fault: str, options: dict[str, Any]) -> None:
    # A reset discards what the client has not read yet: at full speed that is all of it.
    spark.fault("rate", path=WEIGHTS, rate=4 * SIZE)
    spark.fault(fault, path=WEIGHTS, **options)
    spark.succeed()
    if fault in ("reset", "truncate"):
        assert spark.sent[WEIGHTS]["bytes"] < 1.5 * SIZE, "it began again"


def test_a_partial_file_that_the_hub_will_not_go_on_with(spark: Spark) -> None:
    spark.fault("rate", path=WEIGHTS, rate=4 * SIZE)
    spark.fault("reset", path=WEIGHTS)
    spark.fetch()
    assert partial_size(spark) > 0
    hub.clear_faults(spark.url)
    spark.fault("416", path=WEIGHTS, times=1)
    spark.succeed()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("401", "refuses the request (401): make a new token at"),
        ("403-gated", f"{REPO} is gated (403): accept its terms at"),
        ("404", f"{REPO} has no file model.safetensors any more (404"),
        ("500", "answers with status 500, again and again"),
        ("flip", f"model.safetensors of {REPO} arrived with a wrong hash 3 times"),
        ("truncate", "again and again"),
    ],
)
def test_says_plainly_what_does_not_pass(spark: Spark, fault: str, said: str) -> None:
    spark.fault(fault, path=WEIGHTS, **({"after": 0} if fault == "truncate" else {}))
    assert said in spark.refuse()
    hub.clear_faults(spark.url)
    spark.succeed()


def test_a_token_that_was_revoked(spark: Spark) -> None:
    (spark.root / "secrets/hf-token").write_text("hf_revoked\n")
    assert "refuses the token (401)" in spark.refuse()
    (spark.root / "secrets/hf-token").write_text("hf_lab_reader\n")
    spark.succeed()


def test_a_gated_repository_needs_a_token_that_may(spark: Spark) -> None:
    (spark.hub_root / REPO / "gated").touch()
    assert "is gated (401)" in spark.refuse()
    (spark.root / "secrets/hf-token").write_text("hf_lab_guest\n")
    assert "with the account of your token" in spark.refuse()
    (spark.root / "secrets/hf-token").write_text("hf_lab_reader\n")
    spark.succeed()


def test_nobody_at_the_hubs_address(spark: Spark) -> None:
    spark.url = "http://127.0.0.1:9"
    spark.order()
    assert "no whole answer from http://127.0.0.1:9 (ConnectError)" in spark.refuse()


def test_more_bytes_than_the_disk_has(spark: Spark) -> None:
    data = json.loads((spark.root / "manifests/model.json").read_text())
    data["files"]["model.safetensors"]["size"] = 10**16
    (spark.root / "manifests/model.json").write_text(json.dumps(data))
    assert "10000000.00 GB are still to be fetched" in spark.refuse()
    assert spark.sent == {}


def test_the_record_survives_as_a_reader_sees_it(spark: Spark) -> None:
    spark.succeed()
    lines = ["folder\tmodel", "record\t{broken", "file\t1\t1700000000.1234567890\t7\tconfig.json"]
    folder = parse_folders(lines)["model"]
    assert folder.record == {}
    assert folder.files["config.json"].mtime_ns == 1700000000123456789
