"""A running gateway with its replicas, and a client with openai's package, as fixtures."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from sparkwright.common.render import render
from sparkwright.declared.recipe.recipe import Answers
from sparkwright.door.door import DoorPlan
from sparkwright.door.gateway.files import BEHIND, DOOR_FILES, configuration, environment
from sparkwright.door.gateway.gateway import Upstream
from tests.clock import patience
from tests.component.servers import free_port, listens, serving, until
from tests.lab import cache
from tests.makers.door import files, plan
from tests.makers.gateway import FILES, KEYS
from tests.makers.gateway_clients import CLIENT, CONNECT, Client, ask, said
from tests.makers.gateway_replicas import Door
from tests.programs import changed_program
from tests.unit.certificates import certificate, private_key, written

# The program, with other times: between looks, until a Spark without power is given up, and until a
# door that takes its time. Before Python 3.12, which a gateway's host has, a collection of garbage
# within ContextVar.set may end the process (github.com/python/cpython/issues/148891).
HURRIED = f"""
import gc
from host.door.gateway import doors, gateway
gc.disable()
doors.EVERY, doors.CONNECT, doors.ANSWER = 0.1, {CONNECT}, {patience()}
gateway.command()
"""


@pytest.fixture(scope="package")
def python() -> Path:
    """Python with LiteLLM, from the very requirements that the gateway's host gets."""
    requirements = FILES / "requirements.txt"

    def build(folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
        pip = [folder / "env/bin/python", "-m", "pip", "install", "--quiet"]
        options = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "--requirement"]
        subprocess.run([*pip, *options, requirements], check=True)

    return cache.entry("gateway", [requirements, sys.version], build) / "env/bin/python"


@pytest.fixture(scope="package")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a key, and a certificate that it has signed itself."""
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
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[str, Path]]:
    """A gateway as its unit starts it: its URL, and the file that holds what it prints."""
    folder = tmp_path_factory.mktemp("gateway")
    names = ("tiny", "qwen36-fast")
    replicas = [
        Upstream(f"chat-{each}", names, "sparkwright/tiny-qwen3.5-moe", 4096, keyed=True)
        for each in "ab"
    ]
    replicas.append(Upstream("dead", ("dead",), "some/Model", None, keyed=False))
    # The first door stands for one with other engines, too.
    kinds: tuple[Answers, ...] = ("embeddings", "scores")
    for kind, name in zip(kinds, ("tiny-texts", "tiny-scores"), strict=True):
        replicas.append(Upstream("chat-a", (name,), "some/Model", None, keyed=True, answers=kind))
    urls = {"chat-a": doors[0].url, "chat-b": doors[1].url}
    urls["dead"] = f"http://127.0.0.1:{dead.getsockname()[1]}"
    (folder / "config.yaml").write_text(configuration(replicas, urls))
    port = free_port()
    # What haproxy's chroot is on a host.
    folder.chmod(0o755)
    lines = [
        line.removeprefix("Environment=").split()
        for line in render(
            FILES / "gateway.service", root=folder, trusted=False, doors=[]
        ).splitlines()
        if line.startswith("Environment=")
    ]
    (folder / "keys").write_text(environment(KEYS[0]))
    variables = dict(pair.split("=", 1) for pair in chain(*lines))
    variables["CREDENTIALS_DIRECTORY"] = str(folder)
    # What is not on loopback is nowhere.
    variables |= {f"{kind}_PROXY": "http://127.0.0.1:9" for kind in ("HTTP", "HTTPS")}
    variables |= {"NO_PROXY": "127.0.0.1", "SSL_CERT_FILE": str(tls / "tls.crt")}
    log = folder / "log"
    with log.open("w") as file, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "gateway.sock"))
        shutil.chown(folder / "gateway.sock", "haproxy")
        listening.listen(128)
        process = subprocess.Popen(
            # systemd passes the socket as the third one.
            [
                *("bash", "-c", f'exec "$0" "$@" 3<&{listening.fileno()}'),
                *(python, *changed_program(HURRIED, "config.yaml")[1:]),
            ],
            pass_fds=[listening.fileno()],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": str(folder), **variables},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        # It imports for some 9 s of a free processor.
        until(lambda: "in service: " in log.read_text() or process.poll() is not None, 300)
        assert process.poll() is None, log.read_text()
        shown = Path(f"/proc/{process.pid}/environ").read_text()
        assert not any(key in shown for key in KEYS)
        with opened(folder, folder, plan(port, keys=KEYS, behind=BEHIND)):
            until(lambda: ask(url, "/health", key=None)[0] == 200)
            yield url, log
    finally:
        process.send_signal(signal.SIGTERM)
        # uvicorn ends, in good order, by the signal itself.
        assert process.wait(timeout=patience()) == -signal.SIGTERM, log.read_text()
        for key in KEYS:
            assert key not in log.read_text()


@contextmanager
def opened(folder: Path, root: Path, plan: DoorPlan) -> Iterator[None]:
    """Run a door before the gateway that runs in a folder, with its own files below a root."""
    own = root / "door"
    own.mkdir(parents=True)
    for name, text in {**files(plan, str(root)), **DOOR_FILES}.items():
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
        door.wishes.clear()
    return started[0]


@pytest.fixture(scope="package")
def client(python: Path) -> Iterator[Client]:
    """Runs code with openai's package, where `client` is a client of a gateway; what it printed."""
    command, pipe = [python, "-c", CLIENT], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin
        assert process.stdout
        stdin, stdout = process.stdin, process.stdout

        def run(url: str, code: str) -> Any:
            print(json.dumps([url, code]), file=stdin, flush=True)
            return json.loads(stdout.readline())

        yield run
        stdin.close()
