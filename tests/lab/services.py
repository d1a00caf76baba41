"""What stands on the LAN beside the Sparks, each a process on the bridge's address."""

import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass

from tests.lab import apt, archive, hub, registry, state
from tests.lab.network import HOST
from tests.lab.state import RUN, LabError, Process

# What the hub serves, read anew for each request.
HUB = RUN / "hub"


@dataclass(frozen=True)
class Service:
    """A server: its command is asked for at each start, and builds what it needs to serve."""

    name: str
    port: int
    command: Callable[[], list[str]]


def _registry() -> list[str]:
    storage = registry.ensure_image(state.require().engine)
    return registry.serve_command(storage, f"{HOST}:5000")


def _hub() -> list[str]:
    # A copy, to which tests may add commits.
    shutil.copytree(hub.ensure_repositories(), HUB)
    return state.module("hub", str(HUB), hub.ADDRESS)


def _apt() -> list[str]:
    return apt.serve_command(apt.ensure_repository())


def _archive() -> list[str]:
    return apt.serve_command(archive.ensure(), f"{HOST}:{archive.PORT}")


SERVICES = (
    Service("registry", 5000, _registry),
    Service("hub", 8090, _hub),
    Service("apt", 8091, _apt),
    Service("archive", archive.PORT, _archive),
)


def start(service: Service) -> Process:
    """Start a service; return once it takes connections."""
    process = state.start(service.name, service.command())

    def ready() -> bool:
        if not process.alive():
            raise LabError(f"{service.name} ended at once; see {RUN / service.name}.log")
        return answers(HOST, service.port)

    state.wait_for(ready, 30, f"{service.name} to listen on port {service.port}")
    return process


def answers(host: str, port: int) -> bool:
    """Tell whether a TCP port takes connections right now."""
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True
