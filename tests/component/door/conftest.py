"""A door that runs, and engines behind it."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.clock import patience
from tests.component.door.running import (
    HOLD,
    Asked,
    Engines,
    FakeServer,
    Running,
    engine_of,
    opened,
)
from tests.makers.door import KEY, OTHER


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with opened(tmp_path) as door:
        yield door


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[Engines]:
    with ExitStack() as stack:
        yield lambda name: stack.enter_context(engine_of(tmp_path, name))


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
