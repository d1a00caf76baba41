"""engine ROOT RELEASE: run one release's engine, from the wait for its peers to its end.

One program for one Spark and for a group, whose supervisors hold links: all engines start, and none
outlives another. Each run of this program is one run of the engine; systemd starts the next.

Exit status: 0 stopped on purpose; 1 ended; 2 it would end in the same way again, for vLLM refuses
its command line, or the release is not there; 3 this Spark went down hard twice within an hour.
"""

import asyncio
import json
import signal
import sys
import time
import traceback
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from host.common import probe, starts
from host.common.command_line import words
from host.common.log import log, notify, show
from host.common.seat import place
from host.engine.container import Container, docker, fabric_environment, netdevs
from host.engine.crash_guard import CrashGuard, boot_id
from host.engine.meeting import join
from host.engine.peer_link import Group, Links
from host.engine.places import GroupRoom
from host.engine.standby import VALUE, Standby

PING = 1.0
RETRY = 2.0
# What the worker gives a head that drains, on top of the head's own bound.
DRAIN_MARGIN = 15
# Seconds that each start has: the slowest one measured of a model that fits took 497, with all
# caches empty (docs/performance.md).
LEAST = 600

_HARD_DOWN = (
    "this Spark went down hard twice within an hour while its engine ran (out of memory?): "
    "the engine is not started at boot. Lower gpu-memory-utilization in the recipe and run "
    "Sparkwright again; start it by hand: systemctl start vllm@{}"
)
# On unified memory vLLM takes the page cache for memory in use (vllm-project/vllm#35313).
_DROP_CACHES = "timeout 20 sync; echo 3 > /proc/sys/vm/drop_caches"


class EndError(Exception):
    """The end of this run: its reason, exit status, and the word for it as the end of a start."""

    def __init__(self, reason: str, status: int = 1, word: str = "ended") -> None:
        super().__init__(reason)
        self.status, self.word = status, word


class StopError(EndError):
    """A requested end: requests in flight may be answered first."""


class Supervisor:
    """One run of one rank's engine.

    Args:
        root: the folder of the release's seat. Each of a Spark's two engines counts hard shutdowns
            by itself: one record of both would take one power cut for two.

    Raises:
        OSError, ValueError, KeyError: the release's unit.json is missing or wrong.
    """

    def __init__(self, root: Path, release: str) -> None:
        folder = root / "releases" / release
        self._unit: dict[str, Any] = json.loads((folder / "unit.json").read_text("utf-8"))
        self._root, self._release = root, release
        self._engines = probe.engines(root, release, self._unit)
        self._container = Container(f"vllm-{release}", folder / "run")
        self._standby = Standby(root, release, self._unit)
        self._keep = folder / "keep"
        self._crashes = CrashGuard(root, release, boot_id())
        self._stop_requested = asyncio.Event()
        self._links: Links | None = None
        self._group: Group | None = None
        self._place = GroupRoom(root, release, self._unit["rank"])
        self._is_worker = bool(self._unit["rank"])
        self._begun, self._serves, self._kind = 0.0, False, "serving"
        if self._unit["fabric"]:
            addresses = tuple(twins[0] for twins in self._unit["fabric"])
            sparks, rests = tuple(self._unit["sparks"]), self._place.head_rests
            self._group = Group(root, release, self._unit["rank"], sparks, addresses, rests)

    async def run(self) -> int:
        """Run the engine to its end; return the exit status."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop_requested.set)
        pings = asyncio.create_task(_ping())
        end = await self._end()
        reason = str(end)
        try:
            # One that still starts has nothing in flight, and would not heed a SIGTERM.
            if isinstance(end, StopError) and self._serves:
                show(f"stopping: {reason}")
                await self._drain()
        finally:
            show(reason if end.status == 3 else f"engine ended: {reason}")
            if self._links:
                self._links.say("end", reason)
            problem = await self._container.remove() if self._container.begun else None
            if problem:
                # It may hold the memory: should this Spark have to be switched off, that counts.
                log(f"the container may still be there: {problem}")
            else:
                self._crashes.clear()
                self._place.give_up()
            if self._links:
                await self._links.close()
            if self._begun and not self._serves and not isinstance(end, StopError):
                await self._keep_start(end.word)
            if self._stop_requested.is_set():
                await self._standby.remove()
            pings.cancel()
        return 0 if self._stop_requested.is_set() else end.status

    async def _end(self) -> EndError:
        """Run the engine until something ends that; return what."""
        try:
            await first(self._stopped(), self._live())
        except EndError as end:
            return end
        except Exception as error:
            traceback.print_exc()
            return EndError(f"unexpected {type(error).__name__}: {error}")
        raise AssertionError("a run ends by an exception")

    async def _live(self) -> None:
        if await asyncio.to_thread(self._crashes.too_many_hard_downs, time.time()):
            raise EndError(_HARD_DOWN.format(self._release), 3)
        while problem := await docker("version"):
            show(f"waiting for Docker: {problem}")
            await asyncio.sleep(RETRY)
        # One that a power cut or a killed supervisor left holds the name, and maybe the memory.
        while problem := await self._container.remove():
            show(f"waiting for Docker to remove the last container: {problem}")
            await asyncio.sleep(RETRY)
        self._place.give_up()
        if not self._group:
            await self._serve({})
            return
        while missing := set(self._addresses) - set(await self._netdevs()):
            show(f"waiting for {' and '.join(sorted(missing))} on this Spark: is the cable in?")
            await asyncio.sleep(RETRY)
        while await _run("iptables", "-w", "-C", "INPUT", "-j", "SPARKWRIGHT"):
            show("waiting for the fabric's firewall: systemctl restart fabric-guard")
            await asyncio.sleep(RETRY)
        self._links = await join(self._group, show)
        found = await self._netdevs()
        if missing := set(self._addresses) - set(found):
            raise EndError(f"{' and '.join(sorted(missing))} went away: is the cable in?")
        environment, warnings = fabric_environment(found)
        for warning in warnings:
            log(f"warning: {warning}")
        passes = self._place.pass_on(self._links)
        await first(self._peer_ends(), self._peer_stops(), passes, self._serve(environment))

    async def _serve(self, environment: dict[str, str]) -> None:
        given = environment | await self._standby.known(self._links)
        await self._place.take(self._links)
        show("starting the engine")
        self._begun = time.monotonic()
        if self._unit["unified"]:
            await _run("sh", "-c", _DROP_CACHES)
        if self._links and not self._is_worker:
            await self._links.all_say("started")
        try:
            await asyncio.to_thread(self._crashes.mark)
        except OSError as error:
            # A full disk must not keep a previous release from coming back.
            log(f"warning: should this Spark go down hard, that will not count: {error}")
        if await self._standby.take(self._container, given):
            self._kind = VALUE
        else:
            await self._container.start(given)
        await first(self._container_ends(), self._answer(environment))

    async def _answer(self, environment: dict[str, str]) -> None:
        """Say when the engine serves, and when it no longer does; for a worker the head knows."""
        if self._links and self._is_worker:
            self._links.say("started")
            await self._links.all_say("serving")
        else:
            seconds = starts.bound(self._root, self._release, LEAST, self._unit["start_timeout"])
            try:
                async with asyncio.timeout(seconds):
                    await asyncio.gather(*map(probe.ready, self._engines))
            except TimeoutError:
                late = f"the engine did not answer within {seconds} s"
                raise EndError(late, word=starts.LATE) from None
            # No client has reached it yet.
            if self._keep.exists() and await _run(str(self._keep)):
                log("warning: what it has compiled is not kept for other Sparks")
        self._serves = True
        notify("READY=1")
        show("serving")
        self._kept = asyncio.create_task(self._keep_start(self._kind))
        await first(self._standby.keep(environment), self._watch())

    async def _watch(self) -> NoReturn:
        if self._links and self._is_worker:
            await asyncio.Event().wait()
        if self._links:
            self._links.say("serving")
        how = self._unit["longest_step"], self._fabric_is_silent
        raise EndError(await first(*(probe.watch(each, *how) for each in self._engines)))

    async def _keep_start(self, end: str) -> None:
        """Have the program of the present Sparkwright keep what this start took."""
        program = (self._root / "bin/sparkwright-host", "start", self._root, self._release)
        seconds = f"{time.monotonic() - self._begun:.1f}"
        with suppress(OSError):
            if await _run("timeout", "20", "python3", "-B", *map(str, program), seconds, end):
                log("warning: what this start took was not kept")

    def _fabric_is_silent(self) -> bool:
        """Tell whether ranks may wait for a fabric that comes back: how long, the link decides."""
        return bool(self._links and self._links.quiet)

    async def _container_ends(self) -> NoReturn:
        status = await self._container.ended()
        if status == 2:
            raise EndError("its exit status was 2: vLLM refuses its command line", 2, "refused")
        raise EndError(f"its exit status was {status}")

    async def _stopped(self) -> NoReturn:
        await self._stop_requested.wait()
        raise StopError("it was stopped", 0)

    async def _peer_ends(self) -> NoReturn:
        assert self._links
        raise EndError(await self._links.one_ends(), word="peer")

    async def _peer_stops(self) -> NoReturn:
        assert self._links
        raise StopError(f"{await self._links.one_says('stopping')}: it was stopped")

    async def _drain(self) -> None:
        """Let the head answer what is in flight: that takes all engines and links."""
        seconds = self._unit["stop_timeout"]
        if self._links and self._is_worker:
            self._links.say("stopping")
            await first(self._links.one_ends(), asyncio.sleep(seconds + DRAIN_MARGIN))
        elif self._links:
            await first(self._links.one_ends(), self._container.stop(seconds))
        else:
            await self._container.stop(seconds)

    @property
    def _addresses(self) -> list[str]:
        return list(self._unit["fabric"][self._unit["rank"]])

    async def _netdevs(self) -> dict[str, str]:
        process = await asyncio.create_subprocess_exec("ip", "-j", "addr", stdout=PIPE)
        output, _ = await process.communicate()
        return netdevs(json.loads(output), self._addresses)


async def first(*ways: Awaitable[Any]) -> Any:
    """Wait until one of them ends, and drop the others; return or raise what it does."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task.done()).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _run(*command: str) -> int:
    """Run a command, and drop what it prints; return its exit status."""
    process = await asyncio.create_subprocess_exec(*command, stdout=DEVNULL, stderr=DEVNULL)
    return await process.wait()


async def _ping() -> None:
    while True:
        notify("WATCHDOG=1")
        await asyncio.sleep(PING)


def command() -> NoReturn:
    """Runs the engine that the command line names; does not return."""
    root, release = words(__doc__, "ROOT", "RELEASE")
    try:
        supervisor = Supervisor(place(Path(root), release), release)
    except (OSError, ValueError, KeyError) as error:
        show(f"releases/{release}/unit.json: {error!r}: run Sparkwright again")
        sys.exit(2)
    sys.exit(asyncio.run(supervisor.run()))
