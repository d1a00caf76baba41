"""turns ROOT: have the models of a Spark that do not fit together serve in turn.

ROOT/manifests/turns.json says which they are, and what they take. Twice a second this looks at
their doors and units, asks `decision` for the next steps, and takes them. What it finds decides, so
it may end at any moment. /run/sparkwright/turns.json says how things are.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace as changed
from pathlib import Path
from typing import Any, NoReturn

from host.common import starts
from host.common.atomic import replace
from host.common.command_line import words
from host.common.log import log, notify, show
from host.common.seat import SEATS, laid_down, seat_of_release
from host.door.door import Door, recorded_hold
from host.door.haproxy import DoorError
from host.engine import places
from host.engine.switch import state, units
from host.engine.switch.candidate import MARGIN, lack_of_room
from host.engine.turns.decision import Do, Phase, Replica, Step, next_steps

LOOK = 0.5
# Seconds for which a wish lasts after its client has gone: one that was answered 503 asks again.
WISH = 15.0
# Seconds for which a model is refused after a start that failed, and within which what waits has
# heard so: haproxy tries each request again every second.
PAUSE, HEARD = 300.0, 1.2
# The same of a start that somebody has stopped.
STOPPED = 10.0
# Seconds for which a model whose clients were told to come back waits for them.
BACK = 60.0
# Seconds after which a client may ask again whose model has no place, as an answer of another is
# long; and those of a start that nobody has seen.
LONG, UNSEEN = 60, 120

_PROPERTIES = ("Id", "ActiveState", "Job", "LoadState", "StatusText")
_PHASES = {
    "active": Phase.SERVING,
    "activating": Phase.STARTING,
    "reloading": Phase.SERVING,
    "deactivating": Phase.STOPPING,
}
_AT_WORK = ("active", "activating", "deactivating")


class Seat:
    """A replica as it was at the last look; what is forgotten here is found anew."""

    def __init__(self, root: Path, name: str, declared: Mapping[str, Any], now: float) -> None:
        self.name, self.declared = name, declared
        self.place = root / SEATS / declared["seat"] if declared["seat"] else root
        self.door = Door(self.place)
        # What it should serve, and what a switch under way tries.
        self.release = self.new = ""
        self.phase, self.since, self.used = Phase.STOPPED, now, now
        # Since when a start is under way, however often systemd tries.
        self.begun: float | None = None
        self.waits: float | None = None
        self.closed: float | None = None
        self.asked = now
        # Until when its door refuses what would wait; at first nobody knows.
        self.refuses: float | None = now
        self.is_deferred = False
        self.waiting = self.hits = self.starts = self.refused = 0
        # Until when it is not started again, and why; and whether systemd has its unit so.
        self.failed, self.is_known = (now, ""), False
        self.barred = ""
        self.usual = self.hold = 0.0
        self.step: Step | None = None

    def point(self, release: str) -> None:
        """Take note of the release that it should serve."""
        if release != self.release:
            self.release, self.failed = release, (0.0, "")
            self.usual = starts.usual(starts.alike(self.place, release))

    def look(self, unit: Mapping[str, str], switched: bool, full: str, now: float) -> Replica:
        """Return the replica as it is now.

        Args:
            unit: what systemd says of the engine of its release.
            switched: a switch is at work on it: everything about it stays as it is.
            full: why nothing is begun on the Spark; "" where there is room.
        """
        self._follow(_phase(unit), unit, now)
        in_flight, self.waiting, self.hits = self.door.counts(self.release)
        if in_flight or self.waiting:
            self.used = max(self.used, now)
        self.barred = self._barred(unit, full, now)
        if self.refuses is not None and now >= self.refuses and not self.barred:
            self.door.let_wait()
            self.refuses = None
        if self.waiting:
            self.asked, self.waits = now, now if self.waits is None else self.waits
        elif self.phase == Phase.SERVING or (not self.is_deferred and now - self.asked > WISH):
            self.waits = None
        if not self.door.is_closed:
            self.closed = None
        elif self.phase == Phase.STOPPED and self.declared["on_demand"] and not switched:
            # What comes now waits for the next turn.
            self.door.prefer(self.release)
            self.closed = None
        elif self.closed is None:
            self.closed = now
        bound = laid_down(self.place, self.release).get("start_timeout", 3600) + MARGIN
        hold = self.declared["hold"]
        self.hold = recorded_hold(self.place, self.release) if hold is None else hold
        told = {key: self.declared[key] for key in ("size", "spare", "turn", "idle", "grouped")}
        return Replica(
            self.name,
            **told,
            on_demand=self.declared["on_demand"],
            pinned=self.declared["pinned"] or switched,
            bound=bound,
            usual=self.usual,
            hold=self.hold,
            phase=self.phase,
            since=self.since,
            used=self.used,
            in_flight=in_flight,
            held=self.waiting,
            waits=self.waits,
            closed=self.closed,
            barred=self.barred,
        )

    def _follow(self, phase: Phase, unit: Mapping[str, str], now: float) -> None:
        """Take note of the phase; between two of systemd's tries a start goes on."""
        if phase == Phase.STOPPING and self.begun is not None:
            phase = Phase.STARTING
        if phase == self.phase:
            return
        if phase == Phase.STARTING:
            self.begun = now
        elif phase == Phase.SERVING and self.begun is not None:
            self.starts += 1
            self.usual = starts.usual(starts.alike(self.place, self.release)) or self.usual
            self.door.tell()
        elif phase == Phase.STOPPED and self.begun is not None:
            # Who has stopped it by hand did not mean the requests that wait.
            self.is_known = unit.get("ActiveState") == "failed"
            pause = PAUSE if self.is_known else STOPPED
            self.failed = now + pause, unit.get("StatusText") or "it was stopped"
        if phase != Phase.STARTING:
            self.begun = None
        self.phase, self.since = phase, now
        if phase == Phase.SERVING:
            self.used, self.is_deferred = now + BACK if self.is_deferred else now, False

    def refuse(self, why: str, again: float, until: float) -> None:
        """Refuse what waits, and what comes until then, or while its model may not be started."""
        self.door.refuse(why, round(again))
        self.refused += self.waiting
        self.refuses = until

    def stop(self, why: str, now: float) -> None:
        """Give its place up; a start that is stopped has failed."""
        if self.begun is not None:
            self.failed, self.begun = (now + PAUSE, why), None
        units.systemctl("stop", "--no-block", f"vllm@{self.release}.service")

    def start(self, now: float) -> None:
        """Begin its start; if nothing comes of it, the next look finds that it has failed."""
        names = self.door.haproxy.names().items()
        log(f"{self.name} was asked for by {', '.join(who for who, n in names if n[1])}")
        about = round(self.usual) or UNSEEN
        self.door.tell(f"it starts, which takes about {about} s", about)
        unit = f"vllm@{self.release}.service"
        units.reset_failed(unit)
        units.systemctl("start", "--no-block", unit)
        self.phase, self.since, self.begun = Phase.STARTING, now, now

    def _barred(self, unit: Mapping[str, str], full: str, now: float) -> str:
        if self.is_known and unit.get("ActiveState") != "failed":
            # A run has had it forgotten.
            self.failed, self.is_known = (now, ""), False
        until, why = self.failed
        if unit.get("LoadState") == "masked":
            return "it is stopped, until its owner starts it"
        if not self.release:
            return "it was not set up yet"
        if now < until:
            return f"its start failed: {why}"
        return full if self.phase == Phase.STOPPED else ""


class Turns:
    """The turns of a Spark's models."""

    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._root, self._clock = root, clock
        self._seats: dict[str, Seat] = {}
        self._said = ""

    def look(self) -> None:
        """Look once, and take the steps that are due."""
        declared = state.load(self._root / places.MANIFEST)
        if declared is None:
            show("no model takes turns here")
            return
        now = self._clock()
        self._seats = {
            name: self._seats[name]
            if name in self._seats and self._seats[name].declared == one
            else Seat(self._root, name, one, now)
            for name, one in declared["replicas"].items()
        }
        for seat in self._seats.values():
            link = seat.place / "current"
            seat.point(link.readlink().name if link.is_symlink() else "")
        found = _units(seat.release for seat in self._seats.values() if seat.release)
        replicas = [*self._replicas(found, now), *self._beside(found)]
        for step in [*next_steps(replicas, declared["total"], now, declared["drain"])]:
            try:
                self._take(step, now)
            except (DoorError, OSError) as error:
                log(f"{step.name}: {step.do} failed, and is tried again: {error}")
        for seat in self._seats.values():
            if seat.waits is not None and seat.phase == Phase.STOPPED and seat.refuses is None:
                about = round(seat.usual) or UNSEEN
                with suppress(DoorError):
                    seat.door.tell("other models of this Spark have their turn", about)
        self._report(replicas)

    def _replicas(self, found: Mapping[str, Mapping[str, str]], now: float) -> list[Replica]:
        switched = {
            seat_of_release(self._root, release): release
            for unit, each in found.items()
            if unit.startswith("switch@") and each.get("ActiveState") in _AT_WORK
            for release in [units.release_of(unit)]
        }
        full = lack_of_room(self._root)
        replicas = []
        for seat in self._seats.values():
            if not (seat.place / "door").is_dir():
                # A run has taken it away, and says so soon.
                continue
            new = seat.new = switched.get(seat.declared["seat"], "")
            replica = seat.look(found.get(f"vllm@{seat.release}.service", {}), bool(new), full, now)
            if new and new != seat.release and replica.phase != Phase.STOPPED:
                replicas.append(changed(replica, name=seat.release, on_demand=False, waits=None))
            if new:
                serves = _phase(found.get(f"vllm@{new}.service", {})) == Phase.SERVING
                replica = _candidate(replica, places.Place(self._root, new), serves)
            replicas.append(replica)
        return replicas

    def _beside(self, found: Mapping[str, Mapping[str, str]]) -> list[Replica]:
        """Return the engines that run and are no replica's of now, as in a switch."""
        known = {f"vllm@{seat.release}.service" for seat in self._seats.values()}
        own = {seat.declared["seat"]: seat for seat in self._seats.values()}
        others = []
        for unit, each in found.items():
            if unit.startswith("vllm@") and unit not in known and _phase(each) != Phase.STOPPED:
                release = units.release_of(unit)
                orders = state.load(self._root / f"manifests/switch@{release}.json") or {}
                seat = own.get(seat_of_release(self._root, release))
                size, spare = (seat.declared[each] if seat else 0 for each in ("size", "spare"))
                size = orders.get("engine") or size
                if not places.Place(self._root, release).go.exists():
                    others.append(
                        Replica(release, size, spare, on_demand=False, phase=Phase.SERVING)
                    )
        return others

    def _take(self, step: Step, now: float) -> None:
        seat = self._seats[step.name]
        if step != seat.step:
            log(f"{step.do} {seat.name}: {step.why}")
        seat.step = step
        match step.do:
            case Do.CLOSE:
                seat.door.hold()
                seat.closed = now
            case Do.OPEN:
                seat.door.prefer(seat.release)
                seat.closed, seat.since = None, now
            case Do.STOP:
                seat.stop(step.why, now)
            case Do.REFUSE if not seat.new:
                again = max(seat.failed[0] - now, PAUSE if seat.barred else LONG)
                seat.refuse(step.why, again, now + HEARD)
                seat.waits, seat.is_deferred = None, False
            case Do.DEFER if not seat.new:
                seat.refuse(step.why, step.again, now + max(HEARD, step.again - seat.hold))
                seat.is_deferred = True
            case Do.START if seat.new:
                places.Place(self._root, seat.new).go.touch()
            case Do.START:
                seat.start(now)

    def _report(self, replicas: list[Replica]) -> None:
        """Say how things are, in a file and in the unit's status, if they are new."""
        told = {
            name: {
                "phase": seat.phase,
                "closed": seat.closed is not None,
                "waiting": seat.waiting,
                "starts": seat.starts,
                "hits": seat.hits,
                "refused": seat.refused,
                "seconds": round(seat.usual) or UNSEEN,
                "why": seat.barred,
            }
            for name, seat in self._seats.items()
        }
        text = json.dumps(told)
        if text != self._said:
            self._said = text
            places.RUN.mkdir(mode=0o755, exist_ok=True)
            with suppress(OSError):
                replace(places.RUN / "turns.json", text + "\n")
        phases = ", ".join(f"{each.name} {each.phase}" for each in replicas)
        notify(f"STATUS={phases}")


def _candidate(replica: Replica, place: places.Place, serves: bool) -> Replica:
    """Return a replica of which a switch is at work, as its candidate has its place."""
    if place.go.exists():
        # Its start is the switch's own to bound.
        phase = Phase.SERVING if serves else Phase.STARTING
        return changed(replica, phase=phase, on_demand=True, bound=float("inf"), waits=None)
    if place.asks.exists():
        wish = place.asks.stat().st_mtime - time.time() + time.monotonic()
        return changed(replica, phase=Phase.STOPPED, on_demand=True, waits=wish, barred="")
    return changed(replica, waits=None)


def _phase(unit: Mapping[str, str]) -> Phase:
    found = _PHASES.get(unit.get("ActiveState", ""), Phase.STOPPED)
    return Phase.STARTING if found == Phase.STOPPED and unit.get("Job") else found


def _units(named: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return what systemd says of engines and switches, by name: of these, and of all it has."""
    own = [f"vllm@{release}.service" for release in named]
    asked = (f"--property={','.join(_PROPERTIES)}", *own, "vllm@*.service", "switch@*.service")
    blocks = units.systemctl("show", *asked).split("\n\n")
    found = (dict(line.split("=", 1) for line in block.splitlines()) for block in blocks)
    return {each["Id"]: each for each in found if each.get("Id")}


def command() -> NoReturn:
    """Looks for ever at the Spark whose folder the command line names."""
    (root,) = words(__doc__, "ROOT")
    turns = Turns(Path(root))
    notify("READY=1")
    while True:
        try:
            turns.look()
        except (DoorError, OSError, ValueError, KeyError) as error:
            log(f"a look failed, and is tried again: {error!r}")
        sys.stdout.flush()
        notify("WATCHDOG=1")
        time.sleep(LOOK)
