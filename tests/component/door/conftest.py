"""A door that runs, and engines behind it."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.clock import patience
from tests.component.door.running import HOLD, Asked, Engines, FakeServer, Running
from tests.component.servers import serving
from tests.makers.door import KEY, OTHER


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
def engines(tmp_path: Path) -> Iterator[Engines]:
    with ExitStack() as stack:

        def start(name: str) -> FakeServer:
            server = FakeServer(tmp_path, name)
            stack.enter_context(serving(server))
            return server

        yield start


@pytest.fixture
def engine(running: Running, engines: Engines) -> FakeServer:
    """The only engine behind the door, `a`."""
    running.door.offer("a")
    return engines("a")


@pytest.fixture
def patient(running: Running) -> Running:
    """A door that holds requests."""
    running.change(keys=[KEY, OTHER], hold_seconds=HOLD)
    return running


@pytest.fixture
def asked(patient: Running) -> Iterator[Asked]:
    each = Asked(patient)
    yield each
    # Else they wait for as long as the door lets them.
    patient.stop()
    for thread in each.threads:
        thread.join(timeout=patience())
