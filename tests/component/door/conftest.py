"""A door that runs, and engines behind it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.component.door.running import FakeServer, Running
from tests.component.servers import serving


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    each = Running(tmp_path)
    each.lay(each.plan)
    try:
        each.start()
        yield each
    finally:
        each.stop()


@pytest.fixture
def engines() -> Iterator[Callable[[str], FakeServer]]:
    with ExitStack() as stack:

        def start(name: str) -> FakeServer:
            server = FakeServer(name)
            stack.enter_context(serving(server))
            return server

        yield start


@pytest.fixture
def behind(running: Running, engines: Callable[[str], FakeServer]) -> tuple[Running, FakeServer]:
    """A door with one engine behind it."""
    engine = engines("a")
    running.door.offer("a", engine.server_port)
    return running, engine
