"""The processes behind the server: the engine's core, and the worker of this rank.

They have vLLM's names, and die and hang as vLLM's do: the core computes nothing without its worker,
and a worker of a group nothing without the others, which it reaches by connections over the fabric.
"""

import json
import os
import signal
import socket
import sys
import time
from argparse import Namespace
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

# Seconds for a step, and what the ranks tell each other in one.
PACE = 0.008
_EXCHANGE = bytes(1 << 14)
# vLLM's blocks of the tiny model: tokens in one, blocks of a request, blocks of a rank.
_BLOCK, _GROUPS, _BLOCKS = 640, 4, 1638
_CORE = "EngineCore"


@dataclass
class Request:
    """What the core knows of a request: tokens that were read, and steps still to make."""

    number: int
    prompt: int
    left: int
    pools: bool = False
    written: int = 0


@dataclass(frozen=True)
class Step:
    """What a step has brought: a token of each of these requests, and how things stand."""

    numbers: list[int]
    running: int
    waiting: int
    usage: float


def say(text: str, who: str = "APIServer") -> None:
    now = time.strftime("%m-%d %H:%M:%S")
    print(f"({who} pid={os.getpid()}) INFO {now} [standin] {text}", flush=True)


def fork(name: str, work: Callable[[], None]) -> int:
    """Do some work in another process; return its id. Its exit status is 1 if the work fails."""
    if process := os.fork():
        return process
    try:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        Path("/proc/self/comm").write_text(name)
        work()
        os._exit(0)
    except EOFError:
        os._exit(1)  # what it worked for is gone
    except BaseException as error:
        print(f"({name} pid={os.getpid()}) {type(error).__name__}: {error}", flush=True)
        os._exit(1)


def load(model: Path) -> None:
    """Read the headers of a checkpoint's files, of which none may be missing or cut short."""
    say(f"Starting to load model {model}...", "Worker")
    index = json.loads((model / "model.safetensors.index.json").read_text())
    files = sorted(set(index["weight_map"].values()))
    print(f"Loading safetensors checkpoint shards:   0% Completed | 0/{len(files)}", flush=True)
    present = [name for name in files if (model / name).exists()]
    for name in present:
        size = (model / name).stat().st_size
        with (model / name).open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length)) if length < size else {}
        ends = [each["data_offsets"][1] for key, each in header.items() if key != "__metadata__"]
        if 8 + length + max(ends, default=-1) != size:
            raise SafetensorError(
                "Error while deserializing header: incomplete metadata, file not fully covered"
            )
    if missing := {str(model / name) for name in files if name not in present}:
        raise FileNotFoundError(f"Weight files referenced in index but missing: {missing}")
    done = len(files)
    print(f"Loading safetensors checkpoint shards: 100% Completed | {done}/{done}", flush=True)


class SafetensorError(Exception):
    """A file of weights is damaged."""


def worker(options: Namespace, core: Connection) -> None:
    """Be the worker of this rank: make a step whenever the core says so, or the first rank."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if os.environ.get("SPARKWRIGHT_STANDBY"):
        # The product's plugin, in the process and at the moment in which vLLM has it wait.
        import_module("sparkwright_standby").wait()
    load(Path(options.model_tag))
    if options.node_rank:
        with _join(options) as head:
            core.send("ready")
            while _receive(head):
                head.sendall(_EXCHANGE)
        # vLLM does not look for a head that is gone.
        while True:
            signal.pause()
    listener = _listener(options) if options.nnodes > 1 else None
    others = [_meet(listener) for _ in range(1, options.nnodes) if listener]
    core.send("ready")
    while True:
        core.recv()
        time.sleep(PACE)
        for other in others:
            other.sendall(_EXCHANGE)
        for other in others:
            if not _receive(other):
                raise ConnectionResetError("Connection closed by peer")
        core.send("done")


def _join(options: Namespace) -> socket.socket:
    """Connect to the first rank, however long it takes to listen."""
    address = (options.master_addr, options.master_port)
    own = (os.environ.get("VLLM_HOST_IP", ""), 0)
    deadline = time.monotonic() + (options.distributed_timeout_seconds or 600)
    while True:
        try:
            connection = socket.create_connection(address, timeout=5, source_address=own)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
            continue
        connection.settimeout(None)
        connection.sendall(_EXCHANGE)
        _receive(connection)
        return connection


def _listener(options: Namespace) -> socket.socket:
    """Return what the other ranks are to connect to; it stays open."""
    address = ("::", options.master_port)
    listener = socket.create_server(address, family=socket.AF_INET6, dualstack_ipv6=True)
    listener.settimeout(options.distributed_timeout_seconds or 600)
    return listener


def _meet(listener: socket.socket) -> socket.socket:
    connection, _ = listener.accept()
    connection.settimeout(None)
    _receive(connection)
    connection.sendall(_EXCHANGE)
    return connection


def _receive(connection: socket.socket) -> bool:
    """Take what another rank tells in a step; False when it is gone."""
    left = len(_EXCHANGE)
    try:
        while left and (part := connection.recv(left)):
            left -= len(part)
    except OSError:
        return False
    return not left


def _fork_worker(options: Namespace, *others: Connection) -> tuple[int, Connection]:
    """Fork the worker of this rank, which is to close what is others'; return how to reach it."""
    ours, theirs = Pipe()

    def work() -> None:
        for each in (ours, *others):
            each.close()
        worker(options, theirs)

    suffix = f"_TP{options.node_rank}" if options.nnodes > 1 else ""
    process = fork(f"VLLM::Worker{suffix}", work)
    theirs.close()
    return process, ours


def core(options: Namespace, server: Connection) -> None:
    """Be the engine's core: have the worker write a token of each request, step by step."""
    say(f"Initializing a V1 LLM engine (v0.32.0) with config: model='{options.model_tag}'", _CORE)
    _, ours = _fork_worker(options, server)
    ours.recv()
    blocks = _BLOCKS * options.nnodes
    tokens, most = 516_096 * options.nnodes, options.max_model_len
    say(
        f"CPU KV cache size: {tokens:,} tokens, Maximum concurrency for {most:,} tokens per "
        f"request: {tokens / most:.2f}x",
        _CORE,
    )
    server.send("ready")
    waiting: deque[Request] = deque()
    running: list[Request] = []
    while True:
        idle = not (waiting or running)
        while idle or server.poll():
            idle, order = False, server.recv()
            if isinstance(order, Request):
                waiting.append(order)
                continue
            running = [each for each in running if each.number != order]
            waiting = deque(each for each in waiting if each.number != order)
        while waiting and len(running) < options.max_num_seqs:
            running.append(waiting.popleft())
        if not running:
            server.send(Step([], 0, 0, 0.0))
            continue
        ours.send("step")
        ours.recv()
        numbers = [each.number for each in running]
        for each in running:
            each.left -= 1
            each.written += 1
        running = [each for each in running if each.left]
        used = sum(-(-(each.prompt + each.written) // _BLOCK) * _GROUPS for each in running)
        server.send(Step(numbers, len(running), len(waiting), used / (blocks - 1)))


def headless(options: Namespace) -> int:
    """Be a rank without a server; return the exit status."""
    say(
        "Launching vLLM (v0.32.0) headless multiproc executor, with head node address "
        f"{options.master_addr}:{options.master_port} for torch.distributed process group.",
        "MainProcess",
    )
    process, ours = _fork_worker(options)
    signal.signal(signal.SIGTERM, lambda *_: (os.kill(process, signal.SIGKILL), sys.exit(0)))
    try:
        ours.recv()
        started = True
    except EOFError:
        started = False
    os.waitpid(process, 0)
    print(f"Worker proc VllmWorker-{options.node_rank} died unexpectedly", flush=True)
    return 0 if started else 1
