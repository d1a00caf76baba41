"""pyinfra for tests, forked from a Python that has imported it: that is most of a short run.

A run has words, variables, a folder, files and an end of its own, and is a child of the tests, as
one that they start afresh.
"""

import atexit
import ctypes
import gc
import importlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

# The Python from which runs are forked has this folder, not the project, on its path.
if __name__ != "__main__":
    from tests.clock import patience

PYINFRA = Path(sys.executable).with_name("pyinfra")

# What pyinfra and the product's programs for it import, but for the product itself: there are tests
# with a copy of it. Nothing may begin gevent's loop, which has files of its own, as requests does.
_IMPORTED = (
    *("pyinfra_cli.main", "pyinfra.operations.files", "pyinfra.operations.server"),
    *("pyinfra.operations.systemd", "pyinfra.operations.apt", "pyinfra.facts.systemd"),
    *("paramiko", "yaml", "pydantic", "jinja2"),
    *("cryptography.x509", "cryptography.hazmat.primitives.asymmetric.ec"),
)
_MESSAGE = 1 << 17
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
_LIBC = ctypes.CDLL(None)


class Pyinfra(subprocess.Popen[str]):
    """A run of pyinfra; `args` are the words after its name."""

    def _execute_child(
        self,
        args: Sequence[str | Path],
        executable: object,
        preexec_fn: object,
        close_fds: object,
        pass_fds: object,
        cwd: Path | None,
        env: dict[str, str] | None,
        *rest: Any,
    ) -> None:
        """Have the run forked where subprocess would start a program."""
        # Of each pipe their end and ours; without a pipe, ours is -1.
        pipes = [rest[3:5], rest[6:4:-1], rest[8:6:-1]]
        message = {
            "words": [str(PYINFRA), *map(str, args)],
            "cwd": str(cwd or Path.cwd()),
            "env": dict(os.environ if env is None else env),
        }
        given = [number if theirs == -1 else theirs for number, (theirs, _) in enumerate(pipes)]
        self.pid = _fork(json.dumps(message).encode(), given)
        self._child_created = True
        devnull = getattr(self, "_devnull", -1)
        for fd in {theirs for theirs, ours in pipes if ours != -1} | {devnull} - {-1}:
            os.close(fd)
        self._closed_child_pipe_fds = True


def run(
    words: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run pyinfra to its end, without a terminal; return its exit status and all that it said."""
    pipe = subprocess.PIPE
    with Pyinfra(
        words, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
    ) as process:
        try:
            said = process.communicate(timeout=patience())
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(words, process.returncode, *said)


@cache
def _server() -> socket.socket:
    """Start the Python from which runs are forked; it ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__], stdin=theirs.fileno(), stdout=subprocess.DEVNULL
        )
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


def _fork(message: bytes, files: list[int]) -> int:
    """Have a run forked, as a child of this process; return its process id."""
    _LIBC.prctl(_SUBREAPER, 1, 0, 0, 0)
    try:
        socket.send_fds(_server(), [message], files)
        return int(_server().recv(_MESSAGE))
    finally:
        _LIBC.prctl(_SUBREAPER, 0, 0, 0, 0)


def _serve() -> None:
    """Fork for each message; return in the process that is to be the run."""
    # gevent, which pyinfra imports, puts its own in their places.
    close, fork, waitpid = os.close, os.fork, os.waitpid
    channel = socket.socket(fileno=os.dup(0))
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    while True:
        text, files, _, _ = socket.recv_fds(channel, _MESSAGE, 3)
        if not text:
            sys.exit()
        reading, writing = os.pipe()
        if not (between := fork()):
            # The run's parent ends at once: the run becomes a child of the tests.
            if pid := fork():
                os.write(writing, str(pid).encode())
                os._exit(0)
            break
        waitpid(between, 0)
        channel.send(os.read(reading, 20))
        for fd in (reading, writing, *files):
            close(fd)
    for number, fd in enumerate(files):
        os.dup2(fd, number)
    for fd in (channel.detach(), reading, writing, *files):
        close(fd)
    message = json.loads(text)
    os.chdir(message["cwd"])
    os.environ.clear()
    os.environ.update(message["env"])
    time.tzset()
    sys.argv = message["words"]
    path = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:1] = [str(PYINFRA.parent), *path]


if __name__ == "__main__":
    _serve()
    from pyinfra_cli.main import main

    sys.exit(main())
