"""turns ROOT: have the models of a Spark that do not fit together serve in turn.

ROOT/manifests/turns.json says which they are, and what they take. Twice a second this looks at
their doors and units, asks `decision` for the next steps, and takes them. What it finds decides, so
it may end at any moment. turns.json in `places.RUN` says how things are.
"""

import json
import math
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace as changed
from pathlib import Path
from typing import NoReturn

from host.common.atomic import replace
from host.common.command_line import words
from host.common.log import log, notify, show
from host.common.seat import seat_of_release
from host.door.haproxy import DoorError
from host.engine import places
from host.engine.switch import state, units
from host.engine.switch.candidate import lack_of_room
from host.engine.turns.decision import Contender, Do, Phase, Step, next_steps
from host.engine.turns.seat import HEARD, LONG, PAUSE, UNSEEN, Seat, Worker, phase_of

LOOK = 0.5
_PROPERTIES = ("Id", "ActiveState", "Job", "LoadState", "StatusText")
_AT_WORK = ("active", "activating", "deactivating")


class Turns:
    """The turns of a Spark's models."""

    def __init__(self, root: Path) -> None:
        self._root, self._said = root, ""
        self._seats: dict[str, Seat] = {}

    def look(self) -> None:
        """Look once, and take the steps that are due."""
        declared = state.load(self._root / places.MANIFEST)
        if declared is None:
            show("no model takes turns here")
            return
        now = time.monotonic()
        self._seats = {
            name: self._seats[name]
            if name in self._seats and self._seats[name].declared == one
            else (Worker if one["rank"] else Seat)(self._root, name, one, now)
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
        for seat in (each for each in self._seats.values() if each.declared["on_demand"]):
            if seat.held and seat.phase == Phase.STOPPED and seat.refuses is None:
                about = round(seat.usual) or UNSEEN
                with suppress(DoorError):
                    seat.door.tell("other models of this Spark have their turn", about)
        self._report(replicas)

    def _replicas(self, found: Mapping[str, Mapping[str, str]], now: float) -> list[Contender]:
        switched = {
            seat_of_release(self._root, release): release
            for unit, each in found.items()
            if unit.startswith("switch@") and each.get("ActiveState") in _AT_WORK
            for release in [units.release_of(unit)]
        }
        full = lack_of_room(self._root)
        replicas = []
        for seat in self._seats.values():
            if not seat.declared["rank"] and not (seat.place / "door").is_dir():
                # A run has taken it away, and says so soon.
                continue
            new = seat.new = switched.get(seat.declared["seat"], "")
            replica = seat.look(found.get(f"vllm@{seat.release}.service", {}), bool(new), full, now)
            if new and new != seat.release:
                if replica.phase != Phase.STOPPED:
                    replicas.append(changed(replica, name=seat.release, on_demand=False))
                    replica = changed(replica, phase=Phase.STOPPED, on_demand=True)
                replica = changed(replica, size=seat.declared["size"])
            if new:
                serves = phase_of(found.get(f"vllm@{new}.service", {})) == Phase.SERVING
                replica = _candidate(replica, places.Room(self._root, new), serves)
            replicas.append(replica)
        return replicas

    def _beside(self, found: Mapping[str, Mapping[str, str]]) -> list[Contender]:
        """Return the engines that run and are no replica's of now, as in a switch."""
        known = {f"vllm@{seat.release}.service" for seat in self._seats.values()}
        own = {seat.declared["seat"]: seat for seat in self._seats.values()}
        others = []
        for unit, each in found.items():
            release = units.release_of(unit)
            runs = unit.startswith("vllm@") and phase_of(each) != Phase.STOPPED
            if runs and unit not in known and not places.Room(self._root, release).go.exists():
                orders = state.load(self._root / f"manifests/switch@{release}.json") or {}
                seat = own.get(seat_of_release(self._root, release))
                size, spare = (seat.declared[each] if seat else 0 for each in ("size", "spare"))
                size = orders.get("engine") or size
                others.append(Contender(release, size, spare, on_demand=False))
        return others

    def _take(self, step: Step, now: float) -> None:
        seat = self._seats[step.name]
        if step != seat.step:
            log(f"{step.do} {seat.name}: {step.why}")
        seat.step = step
        match step.do:
            case Do.CLOSE:
                seat.keep_out(now)
            case Do.OPEN:
                seat.let_in(now)
            case Do.STOP:
                seat.stop(step.why, now)
            # A switch ends within minutes, and what it keeps from others then gives way again.
            case Do.REFUSE if seat.barred or not any(each.new for each in self._seats.values()):
                again = max(seat.failed[0] - now, PAUSE if seat.barred else LONG)
                seat.refuse(step.why, again, now + HEARD)
                seat.waits, seat.is_deferred = None, False
            case Do.DEFER if not seat.new:
                again = 10 * math.ceil(step.again / 10)
                seat.refuse(step.why, again, now + max(HEARD, step.again - seat.hold))
                seat.is_deferred = True
            case Do.START if seat.new:
                places.Room(self._root, seat.new).go.touch()
            case Do.START:
                seat.start(now)

    def _report(self, replicas: list[Contender]) -> None:
        """Say how things are, in a file and in the unit's status, if they are new."""
        told = {
            name: {
                **{key: getattr(seat, key) for key in ("phase", "starts", "hits", "refused")},
                **{"closed": seat.closed is not None, "waiting": seat.held},
                **{"seconds": round(seat.usual) or UNSEEN, "why": seat.why or seat.barred},
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


def _candidate(replica: Contender, place: places.Room, serves: bool) -> Contender:
    """Return a replica of which a switch is at work, as its candidate has its place."""
    if place.go.exists():
        # Its start is the switch's own to bound.
        phase = Phase.SERVING if serves else Phase.STARTING
        return changed(replica, phase=phase, on_demand=True, bound=float("inf"), waits=None)
    if place.asks.exists():
        wish = place.asks.stat().st_mtime - time.time() + time.monotonic()
        return changed(replica, phase=Phase.STOPPED, on_demand=True, waits=wish, barred="")
    return changed(replica, waits=None)


def _units(named: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return what systemd says of engines and switches, by name: of these, and of all it has."""
    own = [f"vllm@{release}.service" for release in named]
    asked = (f"--property={','.join(_PROPERTIES)}", *own, "vllm@*.service", "switch@*.service")
    blocks = units.systemctl("show", *asked).split("\n\n")
    told = (dict(line.split("=", 1) for line in block.splitlines()) for block in blocks)
    found = {each["Id"]: each for each in told if each.get("Id")}
    if unknown := {*own} - {*found}:
        # Else each would count as stopped, and its place as free.
        raise OSError(f"systemd does not tell how {' and '.join(sorted(unknown))} is")
    return found


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
