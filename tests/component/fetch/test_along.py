"""What eight Sparks take for weights and an image, compared with two: the Spark's own programs.

Each Spark has a network of its own, whose cable lets 40 Mbit/s through. A block is as small a part
of the weights as it is of real ones. The figures are in docs/performance.md.
"""

import os
import random
import subprocess
import time
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

from host.artifacts.weights.checkpoint import Record
from sparkwright.artifacts.weights.weights import manifest_text
from sparkwright.common.ports import SHARE_PORT
from sparkwright.declared.fleet.fabric_plan import neighbors  # noqa
from sparkwright.plan.release.lock import CheckpointLock, LockedFile
from tests.clock import patience
from tests.component.servers import until
from tests.makers.wires import RATE, Wires, wires
from tests.programs import changed_program

NAME = "model@0123456789ab"
# Seconds of the cable that the weights take, and the image.
SECONDS = 4
SIZE = SECONDS * RATE // 8
# As many files as a model of 100 GB has.
FILES = 24
SHARE = """
import socket, sys
from host.network.fabric import file_server
with socket.create_server((sys.argv.pop(1), int(sys.argv.pop(1)))) as listening:
    file_server.LISTENING = listening.fileno()
    file_server.command()
"""
FETCH = """
import sys
from host.artifacts.weights import fetch, hashing_file
hashing_file.BLOCK = 16 * 1024
fetch.BRIEF = fetch.DELAYS = (0.1,) * 3000
fetch.command()
"""


def checkpoint() -> tuple[CheckpointLock, dict[str, bytes]]:
    made = random.Random(1)
    files = {f"model-{n:05}.safetensors": made.randbytes(SIZE // FILES) for n in range(FILES)}
    files |= {f"{n}.json": made.randbytes(1000) for n in range(8)}
    locked = {
        path: LockedFile(size=len(content), sha256=sha256(content).hexdigest())
        for path, content in files.items()
    }
    return CheckpointLock(repo="a/b", revision="main", commit="0" * 40, files=locked), files


def weights(sparks: int, tmp_path: Path) -> float:
    """Return the seconds from the head's having the weights to the last Spark's."""
    locked, files = checkpoint()
    roots = [tmp_path / f"{sparks}-{rank}" for rank in range(sparks)]
    for rank, root in enumerate(roots):
        (root / "manifests").mkdir(parents=True)
        (root / NAME).mkdir()
        sources = [*dict.fromkeys((rank - 1, 0))] if rank else []
        shares = [f"http://{Wires.address(n)}:{SHARE_PORT}/weights/{NAME}" for n in sources]
        (root / f"manifests/{NAME}.json").write_text(manifest_text(locked, shares=shares))
    head = roots[0] / NAME
    for path, content in files.items():
        (head / path).write_bytes(content)
    with wires(sparks) as fabric, ExitStack() as stack:
        for rank, root in enumerate(roots):
            if rank + 1 < sparks:
                clients = [Wires.address(n) for n in range(sparks) if n != rank]
                words = [Wires.address(rank), SHARE_PORT, root, *clients]
                share = stack.enter_context(fabric.begin(rank, changed_program(SHARE, *words)))
                stack.callback(share.kill)
        home = {"PATH": os.environ["PATH"], "HF_HOME": str(tmp_path)}
        fetching = [
            fabric.begin(
                rank, changed_program(FETCH, root, NAME), env=home, stderr=subprocess.DEVNULL
            )
            for rank, root in enumerate(roots)
            if rank
        ]
        reports = [root / NAME / ".sparkwright-progress.json" for root in roots[1:]]
        until(lambda: all(each.exists() for each in reports))
        begun = time.monotonic()
        record = Record(head)
        for path in files:
            record.add(path, head / path, str(locked.files[path].sha256))
        for each in fetching:
            assert each.wait(patience()) == 0
        took = time.monotonic() - begun
    for root in roots[1:]:
        assert all((root / NAME / path).read_bytes() == each for path, each in files.items())
    return took


def test_eight_sparks_have_the_weights_in_little_more_time_than_two(tmp_path: Path) -> None:
    took = {sparks: weights(sparks, tmp_path) for sparks in (2, 4, 8)}
    print(took)
    assert took[2] >= SECONDS
    assert took[8] <= 1.5 * took[2]
