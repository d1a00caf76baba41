"""Transfers from head to worker, and from the hub, beside the limits of link and disk.

python -m tests.benchmarks.copies: on two virtual Sparks of its own. They share this machine's
cores, which are soon the limit of a fast link: so each is measured over a slower one as well.
They share its disk, too: so it is only written, and what the head lends is in its page cache.
"""

import argparse
from collections.abc import Callable

from tests.benchmarks.first_fetch import first_fetch_table
from tests.benchmarks.image_copy import image_table
from tests.benchmarks.spark_pair import FILES, HEAD, MEBIBYTES, ROOT, Pair, filled, sudo
from tests.benchmarks.usage import Run, in_turn, judge, part, table
from tests.lab.lab import Lab
from tests.lab.shard import enter
from tests.lab.spark import Handle

AIM_RSYNC = 3
SIZE = FILES * MEBIBYTES * (1 << 20) / 1e6
# Megabytes a second at which two cores are not the limit.
SLOW = 250
LINK, DISK, OURS = "link, socket to socket", "disk, past the page cache", "ours, hashed"
RSYNC = "rsync over ssh"

_COPY = """
import json
from pathlib import Path
from host.weights.checkpoint import LocalCheckpoint
from host.weights.peer_source import PeerSource
from host.common.progress import Progress
folder = Path("{root}/copy")
folder.mkdir()
files = json.loads(Path("{root}/manifest.json").read_text())
checkpoint = LocalCheckpoint(folder, files)
with Progress(Path("{root}/progress.json"), checkpoint.measure) as progress:
    checkpoint.verify()
    checkpoint.fetch(PeerSource("http://{head}:{port}/weights/model", progress))
"""
_WRITE = """
import mmap, os
from threading import Thread
def write(number):
    block = mmap.mmap(-1, 4 << 20)
    block.write(os.urandom(4 << 20))
    file = os.open(f"{root}/copy/{{number}}", os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
    for _ in range({files} * {mebibytes} // 16):
        os.write(file, block)
    os.fsync(file)
os.mkdir("{root}/copy")
threads = [Thread(target=write, args=[number]) for number in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""
_RECEIVE = """
import socket
from threading import Thread
def receive():
    block = bytearray(4 << 20)
    with socket.create_connection(("{head}", {link})) as connection:
        while connection.recv_into(block):
            pass
threads = [Thread(target=receive) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


class Copies:
    """The ways in which a pair's files can be copied."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair

    def program(self, text: str) -> Callable[[], Run]:
        """Return what runs a program on the worker, with an empty place to copy to."""
        return lambda: self._empty().timed("python3 -B -", filled(text))

    def rsync(self, cipher: str = "") -> Callable[[], Run]:
        """Return what copies by rsync."""
        user = self._pair.head.run("id -un").stdout.strip()
        ssh = (
            f"ssh -i {ROOT}/key -o IdentitiesOnly=yes -o BatchMode=yes "
            f"-o UserKnownHostsFile={ROOT}/known_hosts {cipher}"
        )
        command = f"rsync -a --whole-file --fsync -e '{ssh}' {user}@{HEAD}:{ROOT}/model/"
        return lambda: self._empty().timed(f"{command} {ROOT}/copy/")

    def _empty(self) -> Pair:
        """Have no copy on the worker, and the files in the head's page cache."""
        sudo(self._pair.worker, f"rm -rf {ROOT}/copy")
        self._pair.warm("model")
        return self._pair


def copy_table(head: Handle, worker: Handle) -> None:
    """Measure the copy of weights and of an image in every way, and print the tables."""
    pair = Pair(head, worker)
    copies = Copies(pair)
    try:
        pair.prepare()
        limits = {LINK: copies.program(_RECEIVE), DISK: copies.program(_WRITE)}
        weights_table(pair, copies, limits)
        image_table(pair, SIZE, limits)
    finally:
        pair.clean()


def weights_table(pair: Pair, copies: Copies, limits: dict[str, Callable[[], Run]]) -> None:
    """Measure the copy of weights, and print the tables."""
    others = {RSYNC: copies.rsync(), f"{RSYNC}, AES-GCM": copies.rsync("-c aes128-gcm@openssh.com")}
    rounds = in_turn(limits | others | {OURS: copies.program(_COPY)})
    table(f"Copy of {FILES} files of {MEBIBYTES} MiB, fsynced", SIZE, rounds)
    print(f"  {OURS}: {part(rounds, OURS, RSYNC):.1f} x rsync over ssh (aim: {AIM_RSYNC} x)")
    judge(rounds, OURS, *limits)
    pair.shape(SLOW)
    try:
        slow = in_turn({LINK: limits[LINK], OURS: copies.program(_COPY)})
    finally:
        pair.shape(None)
    table(f"The same over a link of {SLOW} MB/s", SIZE, slow)
    judge(slow, OURS, LINK)


def main() -> None:
    """Print all tables."""
    lab = Lab()
    lab.up(2)
    try:
        copy_table(*lab.sparks())
    finally:
        lab.down()
    first_fetch_table()


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m tests.benchmarks.copies", description=__doc__
    ).parse_args()
    enter("copies", "tests.benchmarks.copies")
    main()
