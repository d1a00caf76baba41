"""The HTTP side of a Spark's engines: servers that outlive each test, and answer for its units."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar

from tests.component.engine.fake_engine import Handler, Server
from tests.component.servers import serving
from tests.component.switch.systemctl import how


class Engines:
    """Ports on which engines answer.

    Attributes:
        ports: of loopback.
        spark: root and state of the Spark whose engines they are now.
    """

    def __init__(self) -> None:
        self.ports: list[int] = []
        self.spark: tuple[Path, Path] | None = None

    def at(self, port: int) -> Path | None:
        """Return the path, without a suffix, of what is known of the unit that has this port."""
        if self.spark is None:
            return None
        root, state = self.spark
        for unit in (state / "units").glob("*.json"):
            release = json.loads((root / "releases" / unit.stem / "release.json").read_text())
            if release["port"] == port and how(state, unit.stem) not in ("fails", "never"):
                return state / unit.stem
        return None


class _Handler(Handler):
    engines: ClassVar[Engines]

    def handle(self) -> None:
        """Answer only while the engine's unit runs."""
        if self._engine():
            super().handle()

    def _answer(self, status: int, body: str) -> None:
        if engine := self._engine():
            super()._answer(status, body)
            engine.with_name(f"{engine.name}.answered").touch()

    def _engine(self) -> Path | None:
        return self.engines.at(int(self.server.server_address[1]))

    def _is(self, name: str) -> bool:
        engine = self._engine()
        behaviour = how(engine.parent, engine.name) if engine else ""
        return {"hang": "silent"}.get(name, name) == behaviour


@contextmanager
def engines(count: int) -> Iterator[Engines]:
    """Have so many engines."""
    _Handler.engines = Engines()
    with ExitStack() as stack:
        for _ in range(count):
            address = stack.enter_context(serving(Server(("127.0.0.1", 0), _Handler)))
            _Handler.engines.ports.append(int(address.rpartition(":")[2]))
        yield _Handler.engines
