"""What the attacks are made on, beside what a module starts itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.component.door.running import FakeServer
from tests.component.servers import serving
from tests.makers.gateway_running import dead, doors, python, started, tls, url
from tests.security.attacks import FIRST_TOKEN

__all__ = ["dead", "doors", "python", "started", "tls", "url"]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[FakeServer]:
    engine = FakeServer(tmp_path, "a")
    engine.pause = FIRST_TOKEN
    with serving(engine):
        yield engine
