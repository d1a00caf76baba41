"""A Spark that fetches weights as the unit does, from a hub on loopback."""

import json
import os
import random
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from sparkwright.artifacts.weights.deploy import ask_folders
from sparkwright.artifacts.weights.weights import CheckpointFolder, differences, manifest_text
from sparkwright.common.progress import JobProgress
from sparkwright.plan.release.lock import CheckpointLock
from sparkwright.plan.release.resolve import resolve_checkpoint
from sparkwright.run.state import read_now
from tests.clock import patience
from tests.component.servers import serving, until
from tests.lab import hub
from tests.lab.hub.faults import Traffic
from tests.lab.hub.server import Hub
from tests.programs import changed_program
from tests.unit.driven import this_machine

REPO = "lab/tiny"
WEIGHTS = f"{REPO}/model.safetensors"
NAME = "model@0123456789ab"
SIZE = 3 * 1024 * 1024
# Tries that bring nothing, of a program that is to get over what is in its way, however long.
TRIES = 10_000
# The delays between tries and the size of blocks are all that differs from the unit's own command.
PROGRAM = """
import pathlib, sys
from host.common import retry
from host.artifacts.weights import fetch, hashing_file, link
hashing_file.BLOCK = 64 * 1024
retry.DELAYS = fetch.DELAYS = (0.05,) * int(sys.argv.pop(1))
fetch.BRIEF = (0.1,) * 100
link.main(pathlib.Path(sys.argv[1]), sys.argv[2])
fetch.command()
"""


@dataclass
class Spark:
    root: Path
    source: Path
    url: str
    hub_root: Path
    locked: CheckpointLock
    name: str
    before: dict[str, dict[str, int]] = field(default_factory=dict, kw_only=True)

    @property
    def folder(self) -> Path:
        return self.root / self.name

    @property
    def fault(self) -> Callable[..., None]:
        return partial(hub.set_fault, hub=self.url)

    @property
    def sent(self) -> dict[str, dict[str, int]]:
        return hub.stats(self.url)

    @property
    def manifest(self) -> Path:
        return self.root / f"manifests/{self.name}.json"

    def order(self) -> None:
        self.manifest.write_text(manifest_text(self.locked, self.url))

    def promise(self, size: int) -> None:
        data = json.loads(self.manifest.read_text())
        data["files"]["model.safetensors"]["size"] = size
        self.manifest.write_text(json.dumps(data))

    def begin(self, tries: int = TRIES) -> subprocess.Popen[str]:
        self.folder.mkdir(exist_ok=True)
        return subprocess.Popen(
            changed_program(PROGRAM, tries, self.root, self.name),
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

    def fetch(self, tries: int = TRIES) -> tuple[int, str]:
        process = self.begin(tries)
        _, errors = process.communicate(timeout=patience())
        return process.returncode, errors

    def fetch_part(self) -> int:
        """Kill the program in the middle of the weights; return how many bytes have come."""
        self.fault("rate", path=WEIGHTS, rate=SIZE // 8)
        process = self.begin()
        until(lambda: self.partial_size() > 0)
        until(lambda: self.progress().phase == "downloading" and self.progress().done > 0)
        process.kill()
        process.communicate()
        assert 0 < self.partial_size() < SIZE
        return self.partial_size()

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
        status, _ = self.fetch(tries=3)
        assert status == 1
        assert self.progress().phase == "failed"
        return self.progress().message

    def progress(self) -> JobProgress:
        report = (self.folder / ".sparkwright-progress.json").read_text()
        return JobProgress(**json.loads(report))

    def look(self) -> CheckpointFolder:
        with this_machine().current() as host:
            return read_now(host, ask_folders(str(self.root), [self.name])).folders[self.name]

    def partial_size(self) -> int:
        files = (self.folder / ".sparkwright-partial").glob("*-model.safetensors")
        return max((file.stat().st_size for file in files), default=0)

    def wrong(self) -> dict[str, str]:
        return differences(self.locked, self.look())

    def original(self, path: str) -> bytes:
        return (self.source / path).read_bytes()


@contextmanager
def fetching(tmp_path: Path) -> Iterator[Spark]:
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
    with serving(server := Hub(tmp_path / "hub", ("127.0.0.1", 0))) as address:
        url = f"http://{address}"
        locked = resolve_checkpoint(REPO, "main", url)
        server.traffic = Traffic()  # what the lock asked for is not the Spark's
        spark = Spark(root, source, url, tmp_path / "hub", locked, NAME)
        spark.order()
        yield spark
