"""Engines as a container runs them, in namespaces of their own, and their clients."""

import http.client
import json
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
from requests import adapters
from urllib3 import HTTPConnectionPool, connection

from host.common.seat import SOCKETS, engine_address
from sparkwright.declared.recipe.loader import load_recipe
from sparkwright.plan.release.command import environment, serve_arguments
from tests.lab import registry, tiny_model, tiny_texts
from tests.lab.engine_image import ENVIRONMENT, Engine
from tests.lab.state import wait_for
from tests.makers.release import numbered

MASTER, RELEASE = "127.0.0.1", "engine"
COMPLETIONS = "/v1/chat/completions"
JSON = {"Content-Type": "application/json"}
URL = "http://localhost"
# Seconds within which everything happens that is waited for; a start on a busy machine takes most.
PATIENCE = 240
TOO_LONG = (
    "This model's maximum context length is 4096 tokens. However, your prompt contains at least "
    "4097 input tokens"
)

# The image stays as it is; the network is up, there are a folder for the socket and a supervisor's
# sign of life, /proc shows the processes of this namespace, and two ranks share no memory, by which
# vLLM would take them for ones of the same machine.
_ENTER = """\
ip link set lo up
mount --bind "$0" "$0"
mount -o remount,bind,ro "$0"
cd "$0"
for folder in tmp run root mnt; do mount -t tmpfs tmpfs $folder; done
mkdir run/vllm run/standby
: > run/standby/alive
mount --bind "$1" mnt
mount -o remount,bind,ro mnt
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs dev/shm
shift
exec chroot . "$@"
"""
MODEL = "/mnt/model"
# The recipes of the lab, and what makes the folder in which the checkpoint of each is `model`.
CHAT, EMBEDDING, RERANKER = "lab-tiny", "lab-embedding", "lab-reranker"
RECIPES = {
    CHAT: tiny_model.ensure_models,
    EMBEDDING: tiny_texts.ensure_models,
    RERANKER: tiny_texts.ensure_models,
}


def line(sparks: int = 1, rank: int = 0, recipe: str = CHAT, **changes: str) -> list[str]:
    """Return the line by which the product starts a recipe, with `changes` of its words."""
    found = load_recipe(recipe).for_sparks(sparks)
    folder = f"/models/{found.checkpoints['model'].folder}"
    words = serve_arguments(found, numbered(sparks, rank, MASTER))
    return [changes.get(word, word).replace(folder, MODEL) for word in words]


def until(true: Callable[[], object], what: str) -> None:
    wait_for(lambda: bool(true()), PATIENCE, what)


def _connected(root: Path, timeout: object) -> socket.socket:
    made = socket.socket(socket.AF_UNIX)
    made.settimeout(timeout if isinstance(timeout, int | float) else None)
    with engine_address(root, RELEASE) as address:
        made.connect(address)
    return made


class Connection(http.client.HTTPConnection):
    def __init__(self, root: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._root = root

    def connect(self) -> None:
        self.sock = _connected(self._root, self.timeout)


class _Connection(connection.HTTPConnection):
    root: Path

    def _new_conn(self) -> socket.socket:
        return _connected(self.root, self.timeout)


class _Adapter(adapters.HTTPAdapter):
    def __init__(self, root: Path) -> None:
        super().__init__()
        self._pool = HTTPConnectionPool("localhost")
        self._pool.ConnectionCls = type("Connection", (_Connection,), {"root": root})

    def get_connection_with_tls_context(self, *_: Any, **__: Any) -> HTTPConnectionPool:
        return self._pool


@dataclass
class Running:
    """An engine that was started: the program that holds its namespaces, and what it printed."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def server(self) -> int:
        """The process id of `vllm`, the first of its namespace."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        until(lambda: bool(children.read_text()), "the first process")
        return int(children.read_text())

    def pids(self, name: str) -> list[int]:
        """Return the processes of this name, as pkill knows it."""
        own = Path(f"/proc/{self.server}/ns/pid").readlink()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if (folder / "ns/pid").readlink() == own:
                    found += [int(folder.name)] * (folder / "comm").read_text().startswith(name)
            except OSError:
                continue
        return found

    def signal(self, name: str, number: signal.Signals) -> None:
        pids = self.pids(name)
        assert pids
        for pid in pids:
            os.kill(pid, number)

    @property
    def root(self) -> Path:
        """The folder of a seat, in which its socket is as on a Spark."""
        root = self.log.with_suffix("")
        link = root / SOCKETS / RELEASE
        if not link.is_symlink():
            link.parent.mkdir(parents=True)
            link.symlink_to(f"/proc/{self.server}/root/run/vllm")
        return root

    @property
    def client(self) -> requests.Session:
        session = requests.Session()
        session.mount(URL, _Adapter(self.root))
        return session

    def ask(
        self, path: str, body: object = None, timeout: float = PATIENCE, stream: bool = False
    ) -> requests.Response:
        data = body if isinstance(body, str) or body is None else json.dumps(body)
        return self.client.request(
            "GET" if body is None else "POST",
            URL + path,
            data=data,
            headers=JSON if data else {},
            timeout=timeout,
            stream=stream,
        )

    def wait(self) -> int:
        return self.process.wait(PATIENCE)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def wait_ready(self) -> None:
        def ready() -> bool:
            assert self.alive, self.log.read_text()[-3000:]
            try:
                return self.ask("/health", timeout=5).ok
            except (OSError, ValueError):
                return False

        until(ready, "/health")


def start(
    engine: Engine,
    words: Sequence[str],
    log: Path,
    *,
    models: Path | None = None,
    network: Running | None = None,
    variables: Mapping[str, str] | None = None,
) -> Running:
    """Start `vllm WORDS` of an engine's image, by default with a network of its own."""
    root = registry.unpacked(engine)
    given = {**ENVIRONMENT, **environment(load_recipe("lab-tiny")), **(variables or {})}
    own = ["unshare", "--net"]
    if network:
        own = ["nsenter", f"--net=/proc/{network.server}/ns/net", "unshare"]
    command = [*own, "--mount", "--propagation=slave", "--pid", "--fork", "--kill-child"]
    command += ["sh", "-ec", _ENTER, str(root), str(models or tiny_model.ensure_models())]
    command += ["env", "-i", *(f"{name}={value}" for name, value in given.items()), "sh", "-c"]
    command += ['umask 0; exec vllm "$@"', "vllm", *words]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    return Running(process, log)


def chat(text: str = "Say hello.", **options: Any) -> dict[str, Any]:
    greedy = {"max_tokens": 8, "temperature": 0, "chat_template_kwargs": {"enable_thinking": False}}
    messages = [{"role": "user", "content": text}]
    return {"model": "tiny", "messages": messages, **greedy, **options}


def check_refused(answer: requests.Response, status: int, words: str) -> None:
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, status)
    assert words in error["message"]
    assert error.keys() == {"message", "type", "param", "code"}


def choice(serving: Running, **options: Any) -> dict[str, Any]:
    answer = serving.ask(COMPLETIONS, chat(**options)).json()
    (found,) = answer["choices"]
    return {**found, "usage": answer["usage"]}


def events(text: str) -> list[dict[str, Any]]:
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]
