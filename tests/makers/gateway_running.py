"""A running gateway with its replicas, as fixtures."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sparkwright.declared.recipe.recipe import Answers
from sparkwright.door.door import DoorPlan
from sparkwright.door.gateway.gateway import BEHIND, DOOR_FILES, Upstream, configuration
from sparkwright.door.key import Key
from tests.clock import patience
from tests.component.servers import free_port, listens, serving, until
from tests.lab import cache
from tests.makers.door import plan
from tests.makers.gateway import FILES, KEYS
from tests.makers.gateway_clients import CONNECT, ask, said
from tests.makers.gateway_replicas import Door
from tests.programs import changed_program
from tests.unit.certificates import certificate, private_key, written

# The program, with other times: between looks, until a door that takes its time, and until a Spark
# without power is given up.
HURRIED = f"""
from host.door.gateway import gateway, replicas
replicas.EVERY, replicas.ANSWER, gateway.CONNECT = 0.1, {patience()}, {CONNECT}
gateway.command()
"""


@pytest.fixture(scope="package")
def python() -> Path:
    return cache.python("gateway", FILES / "requirements.txt")


@pytest.fixture(scope="package")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, key = tmp_path_factory.mktemp("tls"), private_key()
    written(folder, certificate(key, days=1), key)
    return folder


@pytest.fixture(scope="package")
def doors(tls: Path) -> Iterator[list[Door]]:
    """Two replicas, the second one by https."""
    both = [Door(), Door(tls)]
    with serving(both[0]), serving(both[1]):
        yield both
        for door in both:
            door.go.set()


@pytest.fixture(scope="package")
def sleeper() -> Iterator[Door]:
    """A replica that requests start, which is stopped."""
    door = Door()
    door.state = "starts"
    with serving(door):
        yield door


@pytest.fixture(scope="package")
def dead() -> Iterator[socket.socket]:
    """The port of a door that refuses every connection, until somebody listens."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        yield server


@pytest.fixture(scope="package")
def started(
    python: Path,
    tls: Path,
    doors: list[Door],
    dead: socket.socket,
    sleeper: Door,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[str, Path]]:
    """A gateway as its unit starts it: its URL, and the file that holds what it prints."""
    folder = tmp_path_factory.mktemp("gateway")
    names = ("tiny", "qwen36-fast")
    replicas = [
        Upstream(f"chat-{each}", names, "sparkwright/tiny-qwen3.5-moe", 4096, keyed=True)
        for each in "ab"
    ]
    replicas.append(Upstream("dead", ("dead", "both"), "some/Model", None, keyed=False))
    names = ("sleepy", "both")
    replicas.append(Upstream("rests", names, "some/Model", None, keyed=True, on_demand=True))
    # The first door stands for one with other engines, too.
    kinds: tuple[Answers, ...] = ("embeddings", "scores")
    for kind, name in zip(kinds, ("tiny-texts", "tiny-scores"), strict=True):
        replicas.append(Upstream("chat-a", (name,), "some/Model", None, keyed=True, answers=kind))
    urls = {"chat-a": doors[0].url, "chat-b": doors[1].url, "rests": sleeper.url}
    urls["dead"] = f"http://127.0.0.1:{dead.getsockname()[1]}"
    keys = [Key(name="client2", secret=KEYS[1], places=["chat-a", "gateway"])]
    trusted = (tls / "tls.crt").read_text()
    (folder / "config.json").write_text(configuration(replicas, urls, trusted, keys))
    port = free_port()
    # What haproxy's chroot is on a host.
    folder.chmod(0o755)
    (folder / "key").write_text(f"{KEYS[0]}\n")
    variables = {"CREDENTIALS_DIRECTORY": str(folder)}
    # What is not on loopback is nowhere.
    variables |= {f"{kind}_PROXY": "http://127.0.0.1:9" for kind in ("HTTP", "HTTPS")}
    log = folder / "log"
    with log.open("w") as file, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "gateway.sock"))
        shutil.chown(folder / "gateway.sock", "haproxy")
        listening.listen(128)
        process = subprocess.Popen(
            # systemd passes the socket as the third one.
            [
                *("bash", "-c", f'exec "$0" "$@" 3<&{listening.fileno()}'),
                *(python, *changed_program(HURRIED, "config.json")[1:]),
            ],
            pass_fds=[listening.fileno()],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": str(folder), **variables},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    (folder / "pid").write_text(str(process.pid))
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: "in service: " in log.read_text() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        shown = Path(f"/proc/{process.pid}/environ").read_text()
        assert not any(key in shown for key in KEYS)
        with opened(folder, folder, plan(port, keys=KEYS, behind=BEHIND)):
            until(lambda: ask(url, "/health", key=None)[0] == 200)
            yield url, log
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=patience()) == 0, log.read_text()
        for key in KEYS:
            assert key not in log.read_text()


@contextmanager
def opened(folder: Path, root: Path, plan: DoorPlan) -> Iterator[None]:
    """Run a door before the gateway that runs in a folder, with its own files below a root."""
    own = root / "door"
    own.mkdir(parents=True)
    for name, text in {**plan.files(str(root)), **DOOR_FILES}.items():
        if text is not None:
            (own / name).write_text(text.replace("/var/lib/haproxy", str(folder)))
    with (own / "log").open("w") as log:
        command = ["haproxy", "-W", "-C", own, "-f", "door.cfg", "-f", "engines.cfg"]
        haproxy = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        until(lambda: listens(plan.port) or haproxy.poll() is not None)
        assert haproxy.poll() is None, (own / "log").read_text()
        yield
    finally:
        haproxy.send_signal(signal.SIGTERM)
        haproxy.wait(timeout=patience())


@pytest.fixture
def url(started: tuple[str, Path], doors: list[Door]) -> str:
    """A gateway with both replicas in service, which have not been asked for anything yet."""
    for door in doors:
        door.state, door.seen, door.pause = "serves", True, 0.0
        door.key = f"Bearer {KEYS[0]}"
        door.go.clear()
    until(lambda: said(started[1]) == "in service: chat-a, chat-b")
    for door in doors:
        door.asked.clear()
        door.headers.clear()
    return started[0]
