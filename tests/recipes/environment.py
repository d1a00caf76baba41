"""Where a release of vLLM can be asked without a GPU: the lab's engine image, and its Python files.

The image has PyTorch for CPUs and all that vLLM imports; the files of the release stand before the
image's own vLLM.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import IO

from tests.lab import registry
from tests.lab.cache import cache_folder
from tests.lab.state import LabError
from tests.recipes import releases

INSIDE = Path(__file__).with_name("inside")

# Folders of the root: the releases of vLLM, the package, and where a unit has models.
_VLLM, _INSIDE, _MODELS = "vllm", "judge/inside", "models"
_LOCK = Lock()
_VARIABLES = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",
    "PYTHONPATH": "/judge",
    "HF_HUB_OFFLINE": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_TARGET_DEVICE": "cpu",
    "TORCHDYNAMO_DISABLE": "1",
}
# Nothing is left behind, and nothing outside is seen but the cache: the root is read-only, /tmp and
# /models in memory, and there is no network. Only releases are written to: Python's bytecode.
_ENTER = """\
mount --bind "$0" "$0"
mount -o remount,bind,ro "$0"
cd "$0"
mount -t tmpfs tmpfs tmp
mount -t tmpfs tmpfs models
while [ "$1" != -- ]; do mount --bind "$1" "$2"; shift 2; done
shift
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
exec chroot . "$@"
"""


def engine_root() -> Path:
    """Return the root of the lab's engine image, with places for what is bound there."""
    root = registry.unpacked("vllm")
    for place in (_VLLM, _INSIDE, _MODELS):
        (root / place).mkdir(parents=True, exist_ok=True)
    return root


def run_script(version: str | None, script: Path, text: str = "") -> str:
    """Run a Python script where `import vllm` is a release of vLLM, and return what it prints.

    Args:
        version: the release; None: the image's own vLLM, a build for CPUs.
        script: the file; it can import the package `inside`.
        text: its standard input.

    Raises:
        LabError: there is no such release, or the script failed.
    """
    release = f"/{_VLLM}/{releases.files(version).name}" if version else None
    message = {"release": release, "text": script.read_text(), "name": script.name}
    with TemporaryFile("w+") as given, TemporaryFile("w+") as said, TemporaryFile("w+") as log:
        given.write(text)
        given.seek(0)
        reading, writing = os.pipe()
        files = [*(file.fileno() for file in (given, said, log)), writing]
        with _LOCK:
            socket.send_fds(_server(), [json.dumps(message).encode()], files)
        os.close(writing)
        with os.fdopen(reading) as status:
            done = status.read()
        output, errors = (_text(file) for file in (said, log))
    if done != "done":
        raise LabError(f"{script.name} failed: {output[-5000:]}{errors[-5000:]}")
    return output


def _text(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


@cache
def _server() -> socket.socket:
    """Start the Python from which scripts are forked; it ends with this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    binds = [INSIDE, _INSIDE, cache_folder(), _VLLM]
    command = ["unshare", "--mount", "--propagation=slave", "--net", "--pid", "--fork"]
    command += ["--kill-child", "sh", "-ec", _ENTER, str(engine_root()), *map(str, binds), "--"]
    command += ["env", "-i", *(f"{name}={value}" for name, value in _VARIABLES.items())]
    with theirs:
        process = subprocess.Popen(
            [*command, "python3", f"/{_INSIDE}/server.py"], stdin=theirs.fileno()
        )
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours
