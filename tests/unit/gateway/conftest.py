"""One gateway, its replicas and a client with openai's package, for all tests here."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from deploys.plan.gateway import Upstream
from deploys.plan.gateway_files import configuration, environment
from tests.lab import cache
from tests.unit.certificates import certificate, private_key, written
from tests.unit.gateway import FILES, KEYS
from tests.unit.gateway.clients import CLIENT, Client, said
from tests.unit.gateway.replicas import Door
from tests.unit.servers import free_port, serving, until

# The program, with shorter times: between looks, and until a Spark without power is given up.
HURRIED = """
import doors, runpy
doors.EVERY, doors.CONNECT = 0.1, 2
runpy.run_path("gateway.py", run_name="__main__")
"""


@pytest.fixture(scope="package")
def python() -> Path:
    """Python with LiteLLM, from the very requirements that the gateway's host gets."""
    requirements = FILES / "requirements.txt"

    def build(folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
        pip = [folder / "env/bin/python", "-m", "pip", "install", "--quiet", "--require-hashes"]
        options = ["--disable-pip-version-check", "--only-binary", ":all:", "--requirement"]
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
    for program in (*FILES.glob("*.py"), FILES.parent / "engine" / "notify.py"):
        shutil.copy(program, folder)
    names = ("tiny", "qwen36-fast")
    replicas = [
        Upstream(f"chat-{each}", names, "sparkwright/tiny-qwen3.5-moe", 4096, keyed=True)
        for each in "ab"
    ]
    replicas.append(Upstream("dead", ("dead",), "some/Model", None, keyed=False))
    urls = {"chat-a": doors[0].url, "chat-b": doors[1].url}
    urls["dead"] = f"http://127.0.0.1:{dead.getsockname()[1]}"
    (folder / "config.yaml").write_text(configuration(replicas, urls))
    lines = [
        line.removeprefix("Environment=").split()
        for line in (FILES / "gateway.service").read_text().splitlines()
        if line.startswith("Environment=") and "doors.pem" not in line
    ]
    secrets = environment(KEYS).splitlines()
    variables = dict(pair.split("=", 1) for pair in [*chain(*lines), *secrets])
    # What is not on loopback is nowhere.
    variables |= {f"{kind}_PROXY": "http://127.0.0.1:9" for kind in ("HTTP", "HTTPS")}
    variables |= {"NO_PROXY": "127.0.0.1", "SSL_CERT_FILE": str(tls / "tls.crt")}
    port = str(free_port())
    log = folder / "log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [python, "-B", "-c", HURRIED, "config.yaml", "127.0.0.1", port, "1"],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": str(folder), **variables},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        until(lambda: "Uvicorn running" in log.read_text() or process.poll() is not None, 120)
        assert process.poll() is None, log.read_text()
        yield url, log
    finally:
        process.send_signal(signal.SIGTERM)
        # uvicorn ends, in good order, by the signal itself.
        assert process.wait(timeout=60) == -signal.SIGTERM, log.read_text()
        for key in KEYS:
            assert key not in log.read_text()


@pytest.fixture
def url(started: tuple[str, Path], doors: list[Door]) -> str:
    """A gateway with both replicas in service, which have not been asked for anything yet."""
    for door in doors:
        door.state, door.seen = "serves", True
        door.key = f"Bearer {KEYS[0]}"
        door.go.clear()
    until(lambda: said(started[1]) == "in service: chat-a, chat-b")
    for door in doors:
        door.asked.clear()
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
