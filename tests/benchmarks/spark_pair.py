"""Two Sparks with files to copy, and runs of a program on the one that copies them."""

import base64
import shlex
import textwrap

from sparkwright.release.programs import spark_programs
from tests.benchmarks.usage import Run, busy, ticks
from tests.lab.network import FABRIC_PORTS
from tests.lab.spark import Handle

FILES, MEBIBYTES = 8, 256
# Below /opt, as the real folders are; not below the product's root, which a deploy looks at.
ROOT = "/opt/copy-benchmark"
HEAD, WORKER = "192.168.100.11", "192.168.100.12"
SHARE_PORT, LINK_PORT = 29512, 29513
_PORT = FABRIC_PORTS[0][0]

# Of one Spark, in nanoseconds, by either version of control groups.
_CPU = (
    "cat /sys/fs/cgroup/cpuacct/cpuacct.usage 2>/dev/null || "
    "sed -n 's/^usage_usec \\(.*\\)/\\1000/p' /sys/fs/cgroup/cpu.stat"
)
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


def filled(program: str, **values: object) -> str:
    """Return a program with its constants, which finds the product's own modules."""
    constants = {"root": ROOT, "head": HEAD, "worker": WORKER, "port": SHARE_PORT}
    sizes = {"link": LINK_PORT, "files": FILES, "mebibytes": MEBIBYTES}
    text = textwrap.dedent(program).format(**constants, **sizes, **values)
    return f"import sys; sys.path.insert(0, '{ROOT}/sparkwright-host')\n{text}"


def sudo(spark: Handle, script: str, stdin: str = "") -> str:
    """Run a shell script as root; return what it prints."""
    return spark.run(f"sudo sh -ec {shlex.quote(script)}", stdin=stdin, timeout=600).stdout


def python(spark: Handle, program: str, **values: object) -> str:
    """Run a Python program as root; return what it prints."""
    return sudo(spark, "python3 -B -", filled(program, **values))


class Pair:
    """Two Sparks with an address on the fabric each, files to copy, and who lends them."""

    def __init__(self, head: Handle, worker: Handle) -> None:
        self.head, self.worker = head, worker

    def prepare(self) -> None:
        """Set up the fabric, the programs and the files; make a key that rsync may use."""
        for spark, address in ((self.head, HEAD), (self.worker, WORKER)):
            up = f"ip link set {_PORT} up mtu 9000; ip address replace {address}/24 dev {_PORT}"
            sudo(spark, up)
            sudo(spark, f"rm -rf {ROOT}; mkdir -p {ROOT}/manifests {ROOT}/jobs")
            archive = base64.b64encode(spark_programs()).decode()
            sudo(spark, f"base64 -d > {ROOT}/sparkwright-host", archive)
        manifest = python(self.head, _MAKE)
        sudo(self.worker, f"cat > {ROOT}/manifest.json", manifest)
        for name, program in (("share", _LEND), ("link", _SEND)):
            sudo(self.head, f"cat > {ROOT}/{name}-run.py", filled(program))
            unit = f"--quiet --unit copy-benchmark-{name}"
            sudo(self.head, f"systemd-run {unit} python3 -B {ROOT}/{name}-run.py")
        sudo(self.worker, f"ssh-keygen -q -t ed25519 -N '' -C copy-benchmark -f {ROOT}/key")
        key = sudo(self.worker, f"cat {ROOT}/key.pub")
        self.head.run("cat >> ~/.ssh/authorized_keys", stdin=key)
        hosts = self.head.run("cat /etc/ssh/ssh_host_ed25519_key.pub").stdout
        sudo(self.worker, f"cat > {ROOT}/known_hosts", f"{HEAD} {hosts}")

    def clean(self) -> None:
        """Leave nothing of it on either."""
        self.head.run("sed -i '/ copy-benchmark$/d' ~/.ssh/authorized_keys")
        self.shape(None)
        for spark in (self.head, self.worker):
            sudo(spark, "systemctl stop 'copy-benchmark-*'")
            sudo(spark, f"rm -rf {ROOT}")

    def warm(self, folder: str) -> None:
        """Have a folder of the head in its page cache: its disk is the worker's here."""
        sudo(self.head, f"cat {ROOT}/{folder}/* >/dev/null")

    def shape(self, megabytes: int | None) -> None:
        """Let the head send so many megabytes a second over the fabric; None: all that it can."""
        sudo(self.head, f"tc qdisc del dev {_PORT} root 2>/dev/null || true")
        if megabytes:
            # tc's "mbps" are megabytes.
            limit = f"tbf rate {megabytes}mbps burst 2mb latency 20ms"
            sudo(self.head, f"tc qdisc add dev {_PORT} root {limit}")

    def timed(self, command: str, stdin: str = "", *, at_head: bool = False) -> Run:
        """Run a command on the worker, or the head; both Sparks share this machine's cores."""
        both = {"head": self.head, "worker": self.worker}
        before = {name: int(sudo(spark, _CPU)) for name, spark in both.items()}
        clock = "date +%s.%N; head -1 /proc/stat"
        script = f"sync; {clock}; {command} >/dev/null; {clock}"
        told = sudo(both["head" if at_head else "worker"], script, stdin).splitlines()
        begun, first, ended, last = told
        cpu = {name: (int(sudo(it, _CPU)) - before[name]) / 1e9 for name, it in both.items()}
        return Run(float(ended) - float(begun), busy(ticks(first), ticks(last)), cpu)
