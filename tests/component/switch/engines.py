"""The HTTP side of a Spark's engines: servers that outlive each test, and answer for its units."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from host.common.seat import SOCKETS
from tests.component.engine.fake_engine import Handler
from tests.component.servers import serving
from tests.component.socket_server import SocketServer
from tests.component.switch.systemctl import how


class Engines:
    """Sockets on which engines answer.

    Attributes:
        folders: theirs.
        spark: root and state of the Spark whose engines they are now.
    """

    def __init__(self) -> None:
        self.folders: list[Path] = []
        self.spark: tuple[Path, Path] | None = None

    def at(self, folder: Path) -> Path | None:
        """Return the path, without a suffix, of what is known of the unit that has this socket."""
        if self.spark is None:
            return None
        root, state = self.spark
        for unit in (state / "units").glob("*.json"):
            own = (root / SOCKETS / unit.stem).readlink()
            if own == folder and how(state, unit.stem) not in ("fails", "never"):
                return state / unit.stem
        return None


class _Handler(Handler):
    engines: ClassVar[Engines]
    server: SocketServer

    def handle(self) -> None:
        """Answer only while the engine's unit runs."""
        if self._engine():
            super().handle()

    def _answer(self, status: int, body: str) -> None:
        if engine := self._engine():
            super()._answer(status, body)
            engine.with_name(f"{engine.name}.answered").touch()

    def _engine(self) -> Path | None:
        return self.engines.at(self.server.folder)

    def _is(self, name: str) -> bool:
        engine = self._engine()
        behaviour = how(engine.parent, engine.name) if engine else ""
        return {"hang": "silent"}.get(name, name) == behaviour


@contextmanager
def engines(count: int) -> Iterator[Engines]:
    """Have so many engines."""
    _Handler.engines = Engines()
    with ExitStack() as stack:
        root = Path(stack.enter_context(TemporaryDirectory()))
        for number in range(count):
            server = SocketServer(root, str(number), _Handler)
            stack.enter_context(serving(server))
            _Handler.engines.folders.append(server.folder)
        yield _Handler.engines
