"""What tests of several programs need: the lab's repository of packages, behind a server."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clock import patience
from tests.component.servers import free_port, listens, until
from tests.lab import apt


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The repository, in a cache of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARKWRIGHT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield apt.ensure_repository()


@pytest.fixture(scope="module")
def repository_url(repository: Path) -> Iterator[str]:
    """The address at which apt finds it."""
    port = free_port()
    address = f"127.0.0.1:{port}"
    server = subprocess.Popen(
        apt.serve_command(repository, address), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: listens(port))
        yield f"http://{address}"
    finally:
        server.terminate()
        server.wait(timeout=patience())
