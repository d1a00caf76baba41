"""The copy from head to worker, beside rsync over SSH and the limits of link and disk.

python -m tests.benchmarks.copies: on two virtual Sparks of its own.
"""

import argparse
import base64
import shlex
import statistics
import textwrap
from collections.abc import Callable
from pathlib import Path

from sparkwright.release.programs import spark_programs
from tests.lab.lab import Lab
from tests.lab.network import FABRIC_PORTS
from tests.lab.shard import enter
from tests.lab.spark import Handle

ROUNDS = 3
FILES, MEBIBYTES = 8, 512
AIM_RSYNC, AIM_LIMIT = 3, 0.8
LINK, DISK = "link, socket to socket", "disk, past the page cache"
# Below /opt, as the real folders are; not below the product's root, which a deploy looks at.
ROOT = "/opt/copy-benchmark"
HEAD, WORKER = "192.168.100.11", "192.168.100.12"
SHARE_PORT, LINK_PORT = 29512, 29513
_PROJECT = Path(__file__).parents[2]

_MAKE = """
import json, os
from pathlib import Path
from host.weights.hashing_file import File
folder, record = Path("{root}/model"), {{}}
folder.mkdir(parents=True)
for number in range({files}):
    path = folder / f"{{number}}.bin"
    with path.open("wb") as file:
        for _ in range({mebibytes}):
            file.write(os.urandom(1024 * 1024))
    stat = path.stat()
    record[path.name] = {{"size": stat.st_size, "mtime_ns": stat.st_mtime_ns,
        "inode": stat.st_ino, "hash": File("", stat.st_size, "0" * 64).digest_of(path)}}
(folder / ".sparkwright.json").write_text(json.dumps({{"files": record}}))
print(json.dumps({{p: {{"size": r["size"], "sha256": r["hash"]}} for p, r in record.items()}}))
"""
_LEND = """
import socket
from pathlib import Path
from host.fabric import file_server
file_server.LISTENING = socket.create_server(("{head}", {port})).detach()
file_server.main(Path("{root}"), ["{worker}"])
"""
_COPY = """
import json
from pathlib import Path
from host.weights.checkpoint import LocalCheckpoint
from host.weights.peer_source import PeerSource
from host.common.progress import Progress
folder = Path("{root}/copy")
folder.mkdir()
checkpoint = LocalCheckpoint(folder, json.loads(Path("{root}/manifest.json").read_text()))
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
_SEND = """
import socket
from threading import Thread
def send(connection):
    block = bytes(4 << 20)
    for _ in range({files} * {mebibytes} // 16):
        connection.sendall(block)
    connection.close()
server = socket.create_server(("{head}", {link}))
while True:
    Thread(target=send, args=[server.accept()[0]]).start()
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


def _filled(program: str) -> str:
    values = {"root": ROOT, "head": HEAD, "worker": WORKER, "port": SHARE_PORT, "link": LINK_PORT}
    text = textwrap.dedent(program).format(**values, files=FILES, mebibytes=MEBIBYTES)
    return f"import sys; sys.path.insert(0, '{ROOT}/sparkwright-host')\n{text}"


def _python(spark: Handle, program: str) -> str:
    return _sudo(spark, "python3 -B -", _filled(program))


def _sudo(spark: Handle, script: str, stdin: str = "") -> str:
    return spark.run(f"sudo sh -ec {shlex.quote(script)}", stdin=stdin, timeout=600).stdout


def _timed(worker: Handle, command: str, stdin: str = "") -> float:
    """Run a command on the worker, with an empty place to copy to; return its seconds there."""
    _sudo(worker, f"rm -rf {ROOT}/copy; sync")
    clock = "date +%s.%N"
    begun, ended = _sudo(worker, f"{clock}; {command} >/dev/null; {clock}", stdin).split()
    return float(ended) - float(begun)


class Pair:
    """Two Sparks with an address on the fabric each, files to copy, and ways to copy them."""

    def __init__(self, head: Handle, worker: Handle) -> None:
        self.head, self.worker = head, worker

    def prepare(self) -> None:
        """Set up the fabric, the programs and the files; make a key that rsync may use."""
        port = FABRIC_PORTS[0][0]
        for spark, address in ((self.head, HEAD), (self.worker, WORKER)):
            _sudo(
                spark, f"ip link set {port} up mtu 9000; ip address replace {address}/24 dev {port}"
            )
            _sudo(spark, f"rm -rf {ROOT}; mkdir -p {ROOT}")
            archive = base64.b64encode(spark_programs()).decode()
            _sudo(spark, f"base64 -d > {ROOT}/sparkwright-host", archive)
        manifest = _python(self.head, _MAKE)
        _sudo(self.worker, f"cat > {ROOT}/manifest.json", manifest)
        for name, program in (("share", _LEND), ("link", _SEND)):
            _sudo(self.head, f"cat > {ROOT}/{name}-run.py", _filled(program))
            unit = f"--quiet --unit copy-benchmark-{name}"
            _sudo(self.head, f"systemd-run {unit} python3 -B {ROOT}/{name}-run.py")
        _sudo(self.worker, f"ssh-keygen -q -t ed25519 -N '' -C copy-benchmark -f {ROOT}/key")
        key = _sudo(self.worker, f"cat {ROOT}/key.pub")
        self.head.run("cat >> ~/.ssh/authorized_keys", stdin=key)
        hosts = self.head.run("cat /etc/ssh/ssh_host_ed25519_key.pub").stdout
        _sudo(self.worker, f"cat > {ROOT}/known_hosts", f"{HEAD} {hosts}")

    def clean(self) -> None:
        """Leave nothing of it on either."""
        self.head.run("sed -i '/ copy-benchmark$/d' ~/.ssh/authorized_keys")
        for spark in (self.head, self.worker):
            _sudo(spark, "systemctl stop 'copy-benchmark-*'")
            _sudo(spark, f"rm -rf {ROOT}")

    def ways(self) -> dict[str, Callable[[], float]]:
        """Return what is measured: name -> function that returns seconds."""
        user = self.head.run("id -un").stdout.strip()

        def program(text: str) -> Callable[[], float]:
            return lambda: _timed(self.worker, "python3 -B -", _filled(text))

        def rsync(cipher: str = "") -> Callable[[], float]:
            ssh = (
                f"ssh -i {ROOT}/key -o IdentitiesOnly=yes -o BatchMode=yes "
                f"-o UserKnownHostsFile={ROOT}/known_hosts {cipher}"
            )
            command = f"rsync -a --whole-file --fsync -e '{ssh}' {user}@{HEAD}:{ROOT}/model/"
            return lambda: _timed(self.worker, f"{command} {ROOT}/copy/")

        return {
            LINK: program(_RECEIVE),
            DISK: program(_WRITE),
            "rsync over ssh": rsync(),
            "rsync over ssh, AES-GCM": rsync("-c aes128-gcm@openssh.com"),
            "ours, hashed": program(_COPY),
        }


def copy_table(head: Handle, worker: Handle) -> None:
    """Measure every way in turn, and print the table."""
    pair = Pair(head, worker)
    try:
        pair.prepare()
        ways = pair.ways()
        rounds = [{name: way() for name, way in ways.items()} for _ in range(ROUNDS)]
    finally:
        pair.clean()
    size = FILES * MEBIBYTES * 1024 * 1024 / 1e6
    print(f"\nCopy of {FILES} files of {MEBIBYTES} MiB, fsynced (median of {ROUNDS}, in turn)")
    for name in ways:
        low, rate, high = _spread([size / seconds[name] for seconds in rounds])
        print(f"  {name:<26} {rate:6.0f} MB/s   ({low:.0f} to {high:.0f})")
    # Of each round by itself: what else the machine does changes from round to round.
    ratio = statistics.median(s["rsync over ssh"] / s["ours, hashed"] for s in rounds)
    part = statistics.median(max(s[LINK], s[DISK]) / s["ours, hashed"] for s in rounds)
    print(f"  ours: {ratio:.1f} x rsync over ssh (aim: {AIM_RSYNC} x)")
    print(f"  ours: {part:.0%} of the slower of link and disk (aim: {AIM_LIMIT:.0%})")


def _spread(values: list[float]) -> tuple[float, float, float]:
    return min(values), statistics.median(values), max(values)


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m tests.benchmarks.copies", description=__doc__
    ).parse_args()
    enter("copies", "tests.benchmarks.copies")
    lab = Lab()
    lab.up(2)
    try:
        copy_table(*lab.sparks())
    finally:
        lab.down()
