"""A first fetch from the hub, over TLS as the public one speaks it, beside curl and the disk.

On loopback, in a network of its own; this machine is the Spark, and the hub as well.
"""

import hashlib
import io
import json
import os
import resource
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import Process
from pathlib import Path

from tests.benchmarks.usage import Run, busy, in_turn, judge, machine, table
from tests.lab import hub
from tests.lab.hub.server import Hub
from tests.programs import host_program

REPO, FOLDER = "benchmark/model", "model@benchmark"
FILES, MEBIBYTES = 4, 512
# Megabytes a second at which two cores are not the limit.
SLOW = 125
CURL, DISK, OURS = "hub, by curl to nothing", "disk, past the page cache", "ours, hashed"
LIBRARY, XET = "huggingface_hub, not hashed", "hf-xet of a store on the disk, not hashed"

# What the library does where the hub has no storage of Xet's, as the lab's has none.
_LIBRARY = """
import sys
from huggingface_hub import snapshot_download
url, repo, folder = sys.argv[1:]
snapshot_download(repo, endpoint=url, local_dir=folder, max_workers=4, token=False)
"""
# hf-xet brings no server: what can be had of it here is a store that is made for its tests.
_XET = """
import json, sys
import hf_xet
store, folder, listed = sys.argv[1:]
if listed.startswith("["):
    files = [hf_xet.PyXetDownloadInfo(f"{folder}/{i}", *each) for i, each in
             enumerate(json.loads(listed))]
    hf_xet.download_files(files, store, None, None, None)
else:
    from pathlib import Path
    paths = sorted(map(str, Path(folder).iterdir()))
    done = hf_xet.upload_files(paths, store, None, None, None, "model", skip_sha256=True)
    print(json.dumps([[each.hash, each.file_size] for each in done]))
"""

_WRITE = """
import mmap, os, sys
block = mmap.mmap(-1, 4 << 20)
block.write(os.urandom(4 << 20))
file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | os.O_DIRECT)
for _ in range(int(sys.argv[2])):
    os.write(file, block)
os.fsync(file)
"""


class FirstFetch:
    """A hub with a checkpoint, and the ways to get at it.

    Args:
        root: an empty folder on the disk that is measured.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._certificate = root / "certificate.pem"
        names = ["-subj", "/CN=hub", "-addext", "subjectAltName=IP:127.0.0.1"]
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names]
        files = ["-keyout", str(root / "key.pem"), "-out", str(self._certificate)]
        subprocess.run([*make, *files], check=True, capture_output=True)
        source = root / "source"
        source.mkdir()
        digests = {f"{number}.safetensors": _random(source, number) for number in range(FILES)}
        commit = hub.add_commit(root / "hub", REPO, source)
        self._server = Hub(root / "hub", ("127.0.0.1", 0))
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._certificate, root / "key.pem")
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self._server.server_port}"
        self._addresses = [f"{self.url}/{REPO}/resolve/{commit}/{path}" for path in digests]
        files_there = {
            path: {"size": MEBIBYTES << 20, "sha256": digest} for path, digest in digests.items()
        }
        orders = {"endpoint": self.url, "repo": REPO, "commit": commit, "files": files_there}
        self._store = f"local://{root / 'xet'}"
        (root / "xet").mkdir()
        put = [sys.executable, "-c", _XET, self._store, str(source), "upload"]
        answer = subprocess.run(put, check=True, capture_output=True, env=self._environment())
        self._pointers = answer.stdout.decode().strip()
        (root / "manifests").mkdir()
        (root / f"manifests/{FOLDER}.json").write_text(json.dumps(orders))

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Have the hub answer, from a process of its own."""
        self._process = Process(target=_serve, args=[self._server])
        self._process.start()
        try:
            yield
        finally:
            self._process.kill()
            self._process.join()

    def ways(self) -> dict[str, Callable[[], Run]]:
        """Return what is measured."""
        curl = [
            "curl",
            "--no-progress-meter",
            "--fail",
            "--cacert",
            str(self._certificate),
            "--parallel",
        ]
        outputs = [word for url in self._addresses for word in ("-o", "/dev/null", url)]
        python, folder = sys.executable, str(self._root / FOLDER)
        write = [sys.executable, "-c", _WRITE, str(self._root / FOLDER / "0")]
        return {
            CURL: lambda: self._run([*curl, *outputs]),
            DISK: lambda: self._run([*write, str(FILES * MEBIBYTES // 4)]),
            OURS: lambda: self._run(host_program("fetch-weights", self._root, FOLDER)),
            LIBRARY: lambda: self._run([python, "-c", _LIBRARY, self.url, REPO, folder]),
            XET: lambda: self._run([python, "-c", _XET, self._store, folder, self._pointers]),
        }

    def _run(self, command: list[str]) -> Run:
        folder = self._root / FOLDER
        subprocess.run(["rm", "-rf", str(folder)], check=True)
        folder.mkdir()
        os.sync()
        environment = self._environment()
        before, cpu, begun = machine(), self._cpu(), time.monotonic()
        subprocess.run(command, check=True, env=environment)
        seconds, after, ended = time.monotonic() - begun, machine(), self._cpu()
        return Run(seconds, busy(before, after), {who: ended[who] - cpu[who] for who in cpu})

    def _environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HF_HOME": str(self._root / "hf"),
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "SSL_CERT_FILE": str(self._certificate),
        }

    def _cpu(self) -> Mapping[str, float]:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        words = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = int(words[11]) + int(words[12])
        hub_seconds = ticks / os.sysconf("SC_CLK_TCK")
        return {"hub": hub_seconds, "Spark": children.ru_utime + children.ru_stime}


def _random(folder: Path, number: int) -> str:
    digest = hashlib.sha256()
    with (folder / f"{number}.safetensors").open("wb") as file:
        for _ in range(MEBIBYTES):
            block = os.urandom(1 << 20)
            digest.update(block)
            file.write(block)
    return digest.hexdigest()


def _serve(server: Hub) -> None:
    sys.stderr = io.StringIO()
    server.serve_forever()


@contextmanager
def _slow() -> Iterator[None]:
    """Let loopback carry SLOW megabytes a second."""
    words = ["tc", "qdisc", "add", "dev", "lo", "root", "tbf"]
    # tc's "mbps" are megabytes.
    limit = ["rate", f"{SLOW}mbps", "burst", "2mb", "latency", "20ms"]
    subprocess.run([*words, *limit], check=True)
    try:
        yield
    finally:
        subprocess.run(["tc", "qdisc", "del", "dev", "lo", "root"], check=True)


def first_fetch_table() -> None:
    """Measure a first fetch, and print the tables; in a network of its own."""
    size = FILES * MEBIBYTES * (1 << 20) / 1e6
    title = f"A first fetch of {FILES} files of {MEBIBYTES} MiB over TLS"
    with tempfile.TemporaryDirectory(dir="/var/tmp") as root:
        fetch = FirstFetch(Path(root))
        with fetch.serving():
            ways = fetch.ways()
            rounds = in_turn(ways)
            table(title, size, rounds)
            judge(rounds, OURS, CURL, DISK)
            with _slow():
                slow = in_turn({way: ways[way] for way in (CURL, OURS, LIBRARY)})
            table(f"The same over a line of {SLOW} MB/s", size, slow)
            judge(slow, OURS, CURL)
