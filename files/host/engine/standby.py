"""The standby: a second container of the release, which has done all that needs no GPU, and waits.

The container itself is what the next run of the supervisor finds: it gives it the engine's name,
says the word, and is its foreground. How it waits: files/plugin/sparkwright_standby.py.
"""

import asyncio
import json
import os
import shutil
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from host.common import starts
from host.common.log import log
from host.common.seat import SOCKET, SOCKETS
from host.engine.container import Container
from host.engine.peer_link import Links

# By it the release's `run` and the plugin know that they are to wait; sparkwright/plan/release.
VARIABLE, VALUE = "SPARKWRIGHT_STANDBY", "standby"
# Seconds: for which an engine serves before one is started beside it; between two signs of life for
# it; to go on at the word; without a sign, after which it is forgotten, and ends by itself.
SETTLED, SIGN, HEEDED, FORGOTTEN = 60.0, 5.0, 10.0, 900
LOOK = 0.1


class Standby:
    """The standby of a release, whoever started it; `root` is its seat, `unit` its unit.json."""

    def __init__(self, root: Path, release: str, unit: dict[str, Any]) -> None:
        # Bytes that must be available for a start; 0: there is to be none.
        self._room: int = unit.get("standby", 0)
        self._next = root, release, unit.get("kv_cache", 0)
        self._patience: float = unit.get("start_timeout", 0)
        self._has_socket = not unit.get("rank")
        self._name = f"vllm-{release}-{VALUE}"
        self._container = Container(self._name, root / "releases" / release / "run")
        self._files = root / "state" / f"{VALUE}@{release}"
        self._sockets = root / SOCKETS / release

    @property
    def fits(self) -> bool:
        """Tell whether there is to be one, and memory for it, and no other release has one."""
        try:
            for sign in self._files.parent.glob(f"{VALUE}@*/alive"):
                age = abs(time.time() - sign.stat().st_mtime)  # the clock may have been wrong
                if sign.parent != self._files and age < FORGOTTEN:
                    return False
            _, _, available = Path("/proc/meminfo").read_text("utf-8").partition("MemAvailable:")
        except OSError:  # a switch may be removing one; and nothing here may end the engine
            return False
        return 0 < self._room <= int(available.split()[0]) * 1024

    async def known(self, links: Links | None) -> dict[str, str]:
        """Return what spares an engine measuring its memory.

        In a group all measure or none does: they capture CUDA graphs for it, together.
        """
        found = starts.kv_cache(*self._next)
        agreed = links is None or await links.agree(bool(found), is_head=self._has_socket)
        return found if agreed else {}

    async def take(self, container: Container, environment: dict[str, str]) -> bool:
        """Have it go on as the engine's container, unless RDMA devices changed; tell if it does."""
        if not self._files.exists():
            return False
        try:
            made_with = json.loads((self._files / "alive").read_text("utf-8"))
            waits = (self._files / "waits").exists() and made_with == environment
            if waits and await container.adopt(self._name):
                if self._has_socket:
                    (self._sockets / f"{VALUE}.sock").rename(self._sockets / SOCKET)
                (self._files / "go").touch()
                if await self._heeds(container):
                    log("its standby goes on as the engine")
                    shutil.rmtree(self._files, ignore_errors=True)
                    return True
        except (OSError, ValueError) as error:
            log(f"its standby: {error}")
        log("its standby is of no use: the engine starts anew")
        await container.remove()
        await self.remove()
        return False

    async def _heeds(self, container: Container) -> bool:
        """Tell whether it has gone on, and lives."""
        waiting, deadline = self._sockets / "waiting", time.monotonic() + HEEDED
        while container.running and waiting.exists() and time.monotonic() < deadline:
            await asyncio.sleep(LOOK)
        return container.running and not waiting.exists()

    async def keep(self, environment: dict[str, str]) -> NoReturn:
        """Have one wait while the engine serves; where one never came to wait, there is no next."""
        is_known_to_wait = True
        while self._room and is_known_to_wait:
            await asyncio.sleep(SETTLED)
            # Where a switch has two engines run, memory was found for them alone.
            if self.fits and len([*self._files.parent.glob("running@*")]) < 2:
                is_known_to_wait = await self.prepare(environment, self._sign)
                with suppress(OSError):
                    while self._container.running:
                        await self._sign()
                await self.remove()
                log("the standby has ended" if is_known_to_wait else "no standby came to wait")
        await asyncio.Event().wait()
        raise AssertionError

    async def prepare(
        self, environment: dict[str, str], pause: Callable[[], Awaitable[None]]
    ) -> bool:
        """Start one; tell whether it waits, or was removed by a switch. `pause` waits a moment."""
        await self.remove()
        deadline = time.monotonic() + self._patience
        environment = environment | starts.kv_cache(*self._next)
        try:
            (self._sockets / "waiting").unlink(missing_ok=True)
            self._files.mkdir()
            (self._files / "alive").write_text(json.dumps(environment), "utf-8")
            await self._container.start(environment | {VARIABLE: VALUE}, quiet=True)
            while not (self._sockets / "waiting").exists():
                await pause()
                if not self._container.running or time.monotonic() > deadline:
                    raise OSError("it did not come to wait")
            (self._files / "waits").touch()
        except OSError as error:
            log(f"there is no standby: {error}")
            is_removed = not (self._files / "alive").exists()
            await self.remove()
            return is_removed
        return True

    async def _sign(self) -> None:
        os.utime(self._files / "alive")
        await asyncio.sleep(SIGN)

    async def remove(self) -> None:
        """Leave none; where Docker does not answer, it ends by itself."""
        if self._files.exists() or self._container.running:
            await self._container.remove()
            shutil.rmtree(self._files, ignore_errors=True)
