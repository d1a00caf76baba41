"""What the attacks are made on, beside what a module starts itself."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.component.door.running import FakeServer
from tests.component.servers import serving
from tests.makers.gateway_running import dead, doors, python, sleeper, started, tls, url
from tests.security.attacks import AHEAD, FIRST_TOKEN

__all__ = ["dead", "doors", "python", "sleeper", "started", "tls", "url"]

_SESSION = Path("/proc/self/autogroup")


@pytest.fixture(scope="session", autouse=True)
def ahead() -> None:
    """Give the attacked programs and their clients the processor before all else on this machine,
    the attacker too: his would be another machine's.
    """
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -AHEAD)
    # Where Linux shares a processor by sessions, the session comes before others.
    with suppress(OSError):
        _SESSION.write_text(str(-AHEAD))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Have the session be one of many again: it may outlive the tests, as a shell's does, and comes
    before the kernel's own threads for the network, too.
    """
    # All workers of a run are in the same.
    if not hasattr(session.config, "workerinput"):
        with suppress(OSError):
            _SESSION.write_text("0")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[FakeServer]:
    engine = FakeServer(tmp_path, "a")
    engine.pause = FIRST_TOKEN
    with serving(engine):
        yield engine
