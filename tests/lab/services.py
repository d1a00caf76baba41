"""What stands on the LAN beside the Sparks, each a process on the bridge's address."""

import shutil
import socket
from collections.abc import Callable

from tests.lab import apt, archive, hub, registry, state
from tests.lab.network import HOST
from tests.lab.state import RUN, LabError, Process

# What the hub serves, read anew for each request.
HUB = RUN / "hub"


def _registry() -> list[str]:
    storage = registry.ensure_image(state.require().engine)
    return registry.serve_command(storage, f"{HOST}:5000")


def _hub() -> list[str]:
    # A copy, to which tests may add commits.
    shutil.copytree(hub.ensure_repositories(), HUB)
    return state.module("hub", str(HUB), hub.ADDRESS)


# The port of each, and what returns its command, building first what it is to serve.
SERVICES: dict[str, tuple[int, Callable[[], list[str]]]] = {
    "registry": (5000, _registry),
    "hub": (8090, _hub),
    "apt": (8091, lambda: apt.serve_command(apt.ensure_repository())),
    "archive": (
        archive.PORT,
        lambda: apt.serve_command(archive.ensure(), f"{HOST}:{archive.PORT}"),
    ),
}


def start(name: str) -> Process:
    port, command = SERVICES[name]
    process = state.start(name, command())

    def ready() -> bool:
        if not process.alive():
            raise LabError(f"{name} ended at once; see {RUN / name}.log")
        return answers(HOST, port)

    state.wait_for(ready, 30, f"{name} to listen on port {port}")
    return process


def answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True
