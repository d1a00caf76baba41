"""switch ROOT RELEASE [back]: have RELEASE serve in the place of the one that serves now.

The orders are in ROOT/manifests/switch@RELEASE.json. What is new is checked before what serves is
touched. Until the commit, which is the rename of one link, every end of this program, a power cut
included, leaves the previous release as the one that boots; all but a power cut have it serve
again.

`back` is for the unit, when the program was killed: it takes back what that one had begun.

Exit status: 0 it serves, 1 it does not; ROOT/jobs/switch@RELEASE.json says why, and what now does.
"""

import asyncio
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from host.common.command_line import words
from host.common.log import log
from host.common.seat import laid_down, place
from host.door.door import Door
from host.door.haproxy import DoorError
from host.engine.crash_guard import boot_id
from host.engine.places import Room
from host.engine.standby import Standby
from host.engine.switch import state, units
from host.engine.switch.candidate import MARGIN, Candidate, Refusal, check

# Seconds between two looks at a unit or a number.
LOOK = 0.5
# Seconds beyond the drain after which a worker no longer waits for its head to stop its engine:
# the head's own bounds for in-flight requests, and Docker's for the end of a container.
HEAD = 600


class Switch:
    """One switch of a seat to a release."""

    def __init__(self, root: Path, release: str) -> None:
        self._root = root
        self._new = release
        self._lost = ""
        self._stop_requested = False
        self._stoppable = True
        self._record = root / "state" / "switch.json"
        self._report = state.Report(root / "jobs" / f"switch@{release}.json")
        self._door: Door | None = None
        self._place = Room(root, release)

    def run(self) -> int:
        """Make the switch; return the exit status."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._request_stop)
        self._report.say("checking")
        try:
            with state.turn(self._root, self._wait_for_turn):
                self._switch()
        except (Refusal, OSError) as error:
            return self._failed(str(error))
        finally:
            self._place.give_up()
        self._report.say("done")
        return 0

    def _request_stop(self, *_: object) -> None:
        # An event's lock is no place for a handler: it may interrupt who holds it, and wait for it.
        self._stop_requested = True

    def back(self) -> int:
        """Take back what a program that was killed had begun; return the exit status."""
        with state.turn(self._root, lambda: time.sleep(LOOK)):
            record = state.load(self._record)
            if record is None or record.get("release") != self._new:
                return 0
            self._report.take_up()
            self._take_orders()
            self._stoppable = False
            if self._new in units.enabled(self._root):
                # It was killed after the commit, or there was nothing to go back to.
                self._finish()
                self._place.give_up()
                return 0
            self._return(record.get("previous"), bool(record.get("ran")))
            self._record.unlink(missing_ok=True)
            self._place.give_up()
        return self._failed("the program of the switch was killed")

    def _switch(self) -> None:
        self._take_orders()
        units.systemctl("daemon-reload")
        boots, runs = units.enabled(self._root), units.running(self._root)
        current, last = (self._root / "current").resolve().name, state.load(self._record) or {}
        previous, ran = state.find_previous(self._new, boots, runs, current, last, boot_id())
        serves = previous is not None and units.Unit(previous).active
        self._report.note(previous=previous, restored=serves)
        unit = check(self._root, self._new)
        candidate = Candidate(self._new, unit["start_timeout"], self._report, self._pause)
        beside = bool(
            (self._orders["beside"] and previous and ran)
            and state.fits_beside(unit, laid_down(self._root, previous))
        )
        # From here on something may have to be taken back.
        record = {"release": self._new, "previous": previous, "ran": ran, "boot": boot_id()}
        state.write(self._record, record)
        self._report.note(beside=beside)
        try:
            for release in units.running(self._root):
                if release not in (self._new, previous):
                    units.systemctl("stop", f"vllm@{release}.service")
            if previous is None:
                # It is what this Spark is about, even while it does not serve.
                units.point(self._root, self._new)
            if previous and ran and not beside:
                asyncio.run(candidate.prepare(self._root, unit, previous))
                self._stop_previous(previous, unit)
            # A run starts no model that requests start, but has one that serves replaced.
            starts = not self._orders.get("lazy") or serves or not units.Unit(self._new).ended
            if starts and not self._place.is_taken:
                self._report.say("waiting", message="for a place in the memory")
                self._place.take(self._pause)
            if starts:
                candidate.start()
            if self._door:
                self._door.offer(self._new)
                self._door.prefer(self._new)
            self._report.open()
            if previous and starts:
                candidate.watch(self._orders["trial"])
            units.commit(self._root, self._new, previous)
            if not starts and unit["rank"]:
                # A worker waits for its head.
                units.systemctl("start", "--no-block", f"vllm@{self._new}.service")
        except Exception as error:
            self._stoppable = False
            self._return(previous, ran)
            self._record.unlink(missing_ok=True)
            known = isinstance(error, (Refusal, DoorError, OSError))
            raise Refusal(str(error) if known else f"unexpected {error!r}") from error
        self._stoppable = False
        if previous and beside:
            self._wait_idle(previous, self._orders["drain"])
        self._finish()

    def _take_orders(self) -> None:
        found = state.load(self._root / "manifests" / f"switch@{self._new}.json")
        if found is None:
            raise Refusal(f"there are no orders for {self._new}: run Sparkwright again")
        self._orders = found
        self._door = Door(self._root) if found["door"] else None

    def _stop_previous(self, previous: str, unit: dict[str, Any]) -> None:
        """Stop it when what is in flight is answered, or has had its time."""
        seconds, theirs = self._orders["drain"], laid_down(self._root, previous)
        # One that is not in the new group learns of it by the end of this one.
        head, now = (each.get("sparks", [])[:1] for each in (theirs, unit))
        has_head = theirs.get("rank") and unit["fabric"] and head == now
        if self._door:
            self._report.close()
            self._door.hold()
            self._wait_idle(previous, seconds)
        elif has_head and (life := units.Unit(previous)).active:
            # The head lets clients finish; its end is the end of this one's life.
            self._report.say("waiting", message="for the head to stop its engine")
            deadline = time.monotonic() + seconds + HEAD
            while (now := units.Unit(previous)).active and now.invocation == life.invocation:
                if time.monotonic() > deadline:
                    raise Refusal(f"the head has not stopped {previous}")
                self._pause()
        self._report.close()
        self._report.say("stopping")
        self._report.note(restored=False)
        name = f"vllm@{previous}.service"
        units.systemctl("stop", name)
        # A worker's has ended with its head's: that is no failure for anybody to look into.
        units.reset_failed(name)
        # It may have had another since, and its supervisor have ended before it was stopped.
        asyncio.run(Standby(self._root, previous, unit).remove())

    def _finish(self) -> None:
        """Leave the new release as the only one that boots, runs, and is behind the door."""
        for release in units.enabled(self._root):
            if release != self._new:
                units.disable(release)
        units.systemctl("daemon-reload")
        for release in units.running(self._root):
            if release != self._new:
                self._report.say("stopping")
                units.systemctl("stop", f"vllm@{release}.service")
        units.reset_failures(self._root)
        if self._door:
            with suppress(DoorError, OSError):
                for release in self._door.engines():
                    if release != self._new:
                        self._door.forget(release)
        self._record.unlink(missing_ok=True)

    def _wait_idle(self, release: str, seconds: float) -> None:
        """Return when nothing is in flight at a release, and after so many seconds at the latest.

        Somebody who wants the end of this need not wait for that.
        """
        deadline = time.monotonic() + seconds
        while (busy := self._busy(release)) and time.monotonic() < deadline:
            self._report.say("draining", message=f"{busy} requests in flight")
            if self._stop_requested and not self._stoppable:
                return
            self._pause()

    def _busy(self, release: str) -> int:
        try:
            return self._door.busy(release) if self._door else 0
        except (DoorError, OSError) as error:
            log(f"the door does not tell what is in flight: {error!r}")
            return 0

    def _return(self, previous: str | None, ran: bool) -> None:
        """Have the previous release serve again; leave the new one off."""
        self._report.say("returning")
        if previous:
            units.undo(self._new, previous)
        units.systemctl("stop", "--no-block", f"vllm@{self._new}.service")
        if previous and ran and units.Unit(previous).active:
            # It never stopped: clients go back to it at once.
            self._welcome(previous)
            self._report.open()
            self._report.note(restored=True)
        units.systemctl("stop", f"vllm@{self._new}.service")
        unit = laid_down(self._root, self._new)
        asyncio.run(Standby(self._root, self._new, unit).remove())
        if previous and ran and not units.Unit(previous).active:
            self._report.note(restored=self._restart(previous))
        if self._door:
            with suppress(DoorError, OSError):
                self._door.forget(self._new)

    def _restart(self, previous: str) -> bool:
        """Start the previous release; tell whether it serves again within its own budget."""
        name = f"vllm@{previous}.service"
        seconds = laid_down(self._root, previous).get("start_timeout", 3600) + MARGIN
        deadline = time.monotonic() + seconds
        self._report.close()
        with suppress(TimeoutError):
            # It comes back in any case: it was there before.
            self._place.take(lambda: time.sleep(LOOK))
        # Until it is up, clients wait for it.
        self._welcome(previous)
        units.reset_failed(name)
        units.systemctl("start", "--no-block", name)
        while not (now := units.Unit(previous)).active:
            # systemd tries it some times by itself.
            if now.ended or time.monotonic() > deadline:
                self._lost = f"{previous} does not serve again either: {now.why}"
                return False
            time.sleep(LOOK)
        self._report.open()
        return True

    def _welcome(self, previous: str) -> None:
        if not self._door:
            return
        try:
            self._door.offer(previous)
            self._door.prefer(previous)
        except (DoorError, OSError) as error:
            log(f"the door does not take {previous}: {error!r}")

    def _failed(self, reason: str) -> int:
        said = ". ".join(filter(None, (reason, self._lost)))
        self._report.say("failed", message=said)
        log(said)
        return 1

    def _wait_for_turn(self) -> None:
        self._report.say("waiting", message="for the end of another switch")
        self._pause()

    def _pause(self) -> None:
        """Wait a moment; end the switch if a stop was requested, and it can still be reverted."""
        time.sleep(LOOK)
        if self._stop_requested and self._stoppable:
            raise Refusal("the switch was stopped")


def command() -> NoReturn:
    """Makes the switch that the command line names."""
    root, release, *back = words(__doc__, "ROOT", "RELEASE", rest="back")
    switch = Switch(place(Path(root), release), release)
    sys.exit(switch.back() if back else switch.run())
