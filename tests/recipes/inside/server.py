"""Runs scripts beside a release of vLLM each, forked from a Python that has imported what all need.

Runs in the engine image's Python. On standard input, a Unix socket, comes a message for each
script: JSON with its `text` and `name`, and the folder of the `release`, or null; with it
come its standard files, and a pipe that gets "done" if the script ended well.
"""

import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import sys
import types

MESSAGE = 1 << 17
# What importing vLLM brings in that is not vLLM: two thirds of its time.
IMPORTED = (
    *("torch", "torch._dynamo", "torch._inductor.config", "torch.distributed", "torchvision"),
    *("torch.fx.experimental.symbolic_shapes", "transformers", "transformers.processing_utils"),
    *("transformers.models.auto.modeling_auto", "openai.types.chat", "openai.types.responses"),
    *("aiohttp", "fastapi", "grpc", "llguidance", "requests", "tiktoken", "uvloop", "xgrammar"),
    *("PIL.Image", "prometheus_client", "zmq"),
)
_LIBC = ctypes.CDLL(None, use_errno=True)
_NEWNS, _NEWNET = 0x20000, 0x40000000


def main() -> None:
    """Fork for each message until there are no more."""
    # What is imported stays: to look at it again and again takes a quarter of the time.
    gc.disable()
    channel = socket.socket(fileno=os.dup(0))
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    # Nobody waits for the scripts' processes: they tell how they ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        text, files, _, _ = socket.recv_fds(channel, MESSAGE, 4)
        if not text:
            return
        if not os.fork():
            channel.close()
            _run(json.loads(text), files)
        for fd in files:
            os.close(fd)


def _run(message: dict, files: list) -> None:
    """Be a script, in a network and with a /models and a /tmp of its own, and end."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, fd in enumerate(files[:3]):
            os.dup2(fd, number)
        _check(_LIBC.unshare(_NEWNS | _NEWNET))
        for folder in (b"/models", b"/tmp"):
            _check(_LIBC.mount(b"tmpfs", folder, b"tmpfs", 0, None))
        if message["release"]:
            sys.path.insert(0, message["release"])
        sys.argv = [message["name"]]
        sys.modules["__main__"] = module = types.ModuleType("__main__")
        exec(compile(message["text"], message["name"], "exec"), vars(module))
        sys.stdout.flush()
        sys.__stdout__.flush()
        os.write(files[3], b"done")
        status = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)


def _check(status: int) -> None:
    if status:
        raise OSError(ctypes.get_errno(), "no namespace of its own for a script")


if __name__ == "__main__":
    main()
