"""Sparks whose supervisors run for real, on loopback; docker and ip are scripts."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from host.common import starts
from host.common.seat import SOCKETS
from sparkwright.common.paths import FILES
from sparkwright.network.link.deploy import new_identity_script
from tests.clock import patience
from tests.component.engine.fake_docker import DOCKER, RUN
from tests.component.servers import free_port, until
from tests.programs import changed_program, host_program, script

RELEASE = "tiny-0a1b2c3d"
NAMES = ("spark-a", "spark-b", "spark-c", "spark-d")
ADDRESSES = tuple((f"127.0.0.1{n}", f"127.0.0.2{n}") for n in (1, 2, 3, 4))

# Only by its module's name does it find the project, and the programs of a Spark.
_FAKE = f"env PYTHONPATH={FILES}:{FILES.parent} {sys.executable} -m {__package__}.fake_engine"
# Other times are the only thing that differs from the unit's own command.
_PROGRAM = """
import json, sys
from host.common import probe
from pathlib import Path
from host.engine import meeting, peer_link, places, standby, supervisor
places.RUN = Path(sys.argv[2]) / "run"
for name, value in json.loads(sys.argv.pop(1)).items():
    module, _, constant = name.partition(".")
    setattr(globals()[module], constant, value)
supervisor.command()
"""
TIMES: dict[str, Any] = {
    "peer_link.BEAT": 0.1,
    "peer_link.SILENCE": patience(),
    "peer_link.GREETING": patience(),
    "peer_link.RETRY": 0.1,
    "places.LOOK": 0.05,
    "probe.READY_INTERVAL": 0.05,
    "probe.INTERVAL": 0.05,
    "probe.TOKEN_DEADLINE": patience(),
    "probe.COUNTERS_DEADLINE": patience(),
    "standby.SETTLED": 0.1,
    "standby.SIGN": 0.05,
    "standby.HEEDED": patience(),
    "supervisor.RETRY": 0.1,
    "supervisor.PING": 0.1,
    "supervisor._DROP_CACHES": 'touch "$STATE/dropped-caches"',
}
# A probe that fails lasts as long as both of these.
HANGS = {"probe.TOKEN_DEADLINE": patience(0.1), "probe.COUNTERS_DEADLINE": patience(0.8)}
ERRORS = {"probe.TOKEN_DEADLINE": patience(0.5), "probe.COUNTERS_DEADLINE": patience(0.1)}


@dataclass
class Spark:
    """One Spark: its root folder, the state of its fake Docker, and its supervisor."""

    root: Path
    name: str
    link_port: int
    notified: list[str] = field(default_factory=list)
    process: subprocess.Popen[str] | None = None
    log: str = ""

    @property
    def state(self) -> Path:
        return self.root / "fake"

    def prepare(self, rank: int, sparks: tuple[str, ...], release: str = RELEASE) -> None:
        """Lay down the release and the fakes."""
        folder = self.root / "releases" / release
        for name in ("fake/bin", "secrets", "link", "bin", "state", f"{SOCKETS}/{release}"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)
        fabric = ADDRESSES[: len(sparks)] if len(sparks) > 1 else ()
        unit: dict[str, Any] = {"model": "tiny", "answers": "chat"}
        unit |= {"start_timeout": patience(), "longest_step": 0, "unified": True}
        unit |= {"stop_timeout": 5, "rank": rank, "sparks": sparks, "fabric": fabric}
        (folder / "unit.json").write_text("{}")
        (folder / "release.json").write_text('{"recipe": "tiny", "image": "i"}')
        shutil.copy(host_program("start")[2], self.root / "bin/sparkwright-host")
        self.unit(release, **unit)
        serve = f"exec {_FAKE} {self.root} {release} {self.state}\n"
        script(folder / "run", RUN + ("exec sleep infinity\n" if rank else serve))
        script(self.state / "bin/docker", DOCKER)
        addresses = zip(("enp1s0f0np0", "enP2p1s0f0np0"), ADDRESSES[rank], strict=True)
        links = [{"ifname": name, "addr_info": [{"local": each}]} for name, each in addresses]
        (self.state / "links").write_text(json.dumps(links))
        script(self.state / "bin/iptables", "#!/bin/sh\ntrue\n")
        script(self.state / "bin/ip", '#!/bin/sh\ncat "$STATE/links"\n')

    def unit(self, release: str = RELEASE, **changes: Any) -> None:
        """Have the release say other things of its engine."""
        file = self.root / f"releases/{release}/unit.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    def start(self, release: str = RELEASE, **times: float) -> None:
        """Start a life, as the unit does."""
        assert self.process is None
        self.notified.clear()
        self.log = ""
        systemd = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._address = f"sparkwright-{os.getpid()}-{id(systemd)}"
        systemd.bind(f"\0{self._address}")
        target = (str(self.root), release)
        names = {"peer_link.PORT": self.link_port} | TIMES | times
        self.process = subprocess.Popen(
            changed_program(_PROGRAM, json.dumps(names), *target),
            env={
                "PATH": f"{self.state}/bin:{os.environ['PATH']}",
                "NOTIFY_SOCKET": f"@{self._address}",
                "STATE": str(self.state),
                "SPARK": self.name,
                "SOCKETS": f"{self.root}/{SOCKETS}/{release}",
                "WORD": f"{self.root}/state/standby@{release}",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._listen, args=(systemd,), daemon=True).start()
        self._reader = threading.Thread(target=self._read, args=(self.process,), daemon=True)
        self._reader.start()

    def _listen(self, systemd: socket.socket) -> None:
        while True:
            self.notified.append(systemd.recv(4096).decode())

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout
        for line in process.stdout:
            self.log += line

    @property
    def status(self) -> str:
        """What `systemctl status` would say."""
        words = [word for word in list(self.notified) if word.startswith("STATUS=")]
        return words[-1].removeprefix("STATUS=") if words else ""

    def wait_ready(self) -> None:
        until(lambda: "READY=1" in self.notified)

    def wait_status(self, part: str) -> None:
        try:
            until(lambda: part in self.status)
        except AssertionError:
            raise AssertionError(f"{part!r} is not in {self.status!r}\n{self.log}") from None

    def live_on(self) -> None:
        """Wait for something that should not happen, by the clock of the supervisor itself."""
        pings = self.notified.count("WATCHDOG=1")
        until(lambda: self.notified.count("WATCHDOG=1") >= pings + 5)

    def lives_on(self) -> None:
        """See that the supervisor has not ended."""
        assert self.process
        assert self.process.poll() is None

    def kill(self) -> None:
        """End the supervisor at once, if it lives."""
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def close(self) -> None:
        """Leave nothing that runs."""
        self.kill()
        for name in ("container", "standby"):
            # It may be about to end by itself.
            with suppress(ProcessLookupError):
                if pid := self._living(name):
                    os.kill(pid, signal.SIGKILL)

    def signal(self, number: signal.Signals) -> None:
        assert self.process
        self.process.send_signal(number)

    def end(self) -> int:
        """Wait for the end of the life; return its exit status; no container is left."""
        assert self.process
        status = self.process.wait(timeout=patience())
        self.process = None
        # What it said last has been heard.
        self._reader.join(timeout=patience())
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"END", f"\0{self._address}")
        until(lambda: "END" in self.notified)
        assert not self.container_lives
        assert not list((self.root / "state").glob("running*"))
        assert "Traceback" not in self.log
        return status

    @property
    def container(self) -> int:
        return int((self.state / "container").read_text())

    @property
    def container_lives(self) -> bool:
        return self._living("container") > 0

    @property
    def standby(self) -> int:
        """The process of the standby; 0 without one that lives."""
        return self._living("standby")

    @property
    def standby_waits(self) -> bool:
        """True for a standby that lives and is known to wait."""
        return (self.root / f"state/standby@{RELEASE}/waits").exists() and self.standby > 0

    def _living(self, name: str) -> int:
        try:
            pid = int((self.state / name).read_text())
        except (FileNotFoundError, ValueError):
            # There is none, or its number is just being written.
            return 0
        return pid if lives(pid) else 0

    def set(self, name: str, on: bool = True, text: str = "") -> None:
        """Put a file in the state folder, or take it away."""
        if on:
            new = self.state / f"{name}.new"
            new.write_text(text)
            new.replace(self.state / name)
        else:
            (self.state / name).unlink()

    @property
    def starts(self) -> list[tuple[str, str]]:
        """Kind and failure of each start that is kept."""
        return [(each["kind"], each["failed"]) for each in starts.read(self.root)]

    @property
    def docker(self) -> list[str]:
        """The docker commands so far."""
        return (self.state / "docker.log").read_text().splitlines()

    @property
    def asked(self) -> list[str]:
        """What the fake engine was asked for so far: the status of a completion, or "metrics"."""
        file = self.state / "asked"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the container's client."""
        lines = (self.state / "environment").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)


def group(folder: Path, count: int) -> list[Spark]:
    """Make a head and its workers, which trust each other."""
    port, names = free_port(), NAMES[:count]
    sparks = [Spark(folder / name, name, port) for name in names]
    for rank, spark in enumerate(sparks):
        spark.prepare(rank, names)
        identify(spark)
    for spark in sparks:
        trust(spark, *(each for each in sparks if each is not spark))
    return sparks


def identify(spark: Spark) -> None:
    """Give a Spark a new key and certificate, as a deploy does."""
    command = ["sh", "-c", new_identity_script(str(spark.root), spark.name)]
    subprocess.run(command, check=True, capture_output=True)


def trust(spark: Spark, *peers: Spark) -> None:
    """Pin the certificates of the other Sparks."""
    known = "".join((peer.root / "link/own.crt").read_text() for peer in peers)
    (spark.root / "link/peer.crt").write_text(known)


def take_turns(sparks: Sequence[Spark]) -> None:
    """Have requests start their model."""
    for rank, spark in enumerate(sparks):
        own = {"seat": "", "rank": rank, "on_demand": True}
        (spark.root / "manifests").mkdir()
        (spark.root / "manifests/turns.json").write_text(json.dumps({"replicas": {"big": own}}))


def serve(sparks: Sequence[Spark], **times: float) -> None:
    """Start a life of each, and wait until all serve."""
    for spark in sparks:
        spark.start(**times)
    for spark in sparks:
        spark.wait_ready()


def lives(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
