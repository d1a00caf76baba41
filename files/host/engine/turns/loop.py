"""turns ROOT: have the models of a Spark that do not fit together serve in turn.

ROOT/manifests/turns.json says which they are, and what they take. Twice a second this looks at
their doors and units, asks `decision` for the next steps, and takes them. What it finds decides, so
it may end at any moment. turns.json in `places.RUN` says how things are.
"""

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from host.common.atomic import replace
from host.common.command_line import words
from host.common.log import log, notify, show
from host.common.seat import SEATS, seat_of_release
from host.door.haproxy import DoorError
from host.engine import places
from host.engine.switch import state, units
from host.engine.switch.candidate import lack_of_room
from host.engine.turns.decision import Contender, Step, next_steps
from host.engine.turns.seat import UNSEEN, Declared, Guest, Seat, Unit, phase_of

LOOK = 0.5
_PROPERTIES = "Id,ActiveState,ActiveEnterTimestampMonotonic,Job,LoadState,NRestarts,StatusText"
_NO_SEAT = {"size": 0, "spare": 0}
# What is said of a replica that has no door here.
_UNSEEN = {"starts": 0, "hits": 0, "refused": 0, "seconds": UNSEEN, "why": ""}


class Turns:
    """The turns of a Spark's models."""

    def __init__(self, root: Path) -> None:
        self._root, self._said = root, ""
        self._seats: dict[str, Seat] = {}
        self._steps: dict[str, Step] = {}

    def look(self) -> None:
        """Look once, and take the steps that are due."""
        declared = state.load(self._root / places.MANIFEST)
        if declared is None:
            show("no model takes turns here")
            return
        now = time.monotonic()
        replicas = declared["replicas"]
        found = {each.name: each for each in self._contenders(replicas, now)}
        for step in [*next_steps(found.values(), declared["total"], now, declared["drain"])]:
            if step != self._steps.get(step.name):
                log(f"{step.do} {step.name}: {step.why}")
            self._steps[step.name] = step
            try:
                getattr(found[step.name], step.do)(step, now)
            except (DoorError, OSError) as error:
                log(f"{step.name}: {step.do} failed, and is tried again: {error}")
        self._report({name: each for name, each in found.items() if name in replicas})

    def _contenders(self, declared: Mapping[str, Declared], now: float) -> Iterator[Contender]:
        """Yield the replicas, and the engines that run and are no replica's of now."""
        roots = {
            name: self._root / SEATS / one["seat"] if one["seat"] else self._root
            for name, one in declared.items()
        }
        links = {name: root / "current" for name, root in roots.items()}
        current = {name: each.readlink().name for name, each in links.items() if each.is_symlink()}
        found = _units(current.values())
        at_work = [name for name, unit in found.items() if phase_of(unit) != "stopped"]
        switches = [units.release_of(name) for name in at_work if name.startswith("switch@")]
        switched = {seat_of_release(self._root, release): release for release in switches}
        full = lack_of_room(self._root)
        for name, each in declared.items():
            new = switched.get(each["seat"], "")
            release = new or current.get(name, "")
            unit = found.pop(f"vllm@{release}.service", {})
            one = self._sized(each, release)
            if new or one["rank"]:
                room, phase = places.Room(self._root, release), phase_of(unit)
                if phase != "serving" and not room.go.exists():
                    phase = "stopped"
                    if unit.get("NRestarts", "0") != "0":
                        # The end of a turn is no failure: systemd is not to count it as one.
                        units.reset_failed(unit["Id"])
                elif new:
                    # It is about to start, and keeps its place until the switch has ended.
                    phase = "starting"
                yield Guest(name, one, room, phase, "" if new else full, now)
            # Else a run has taken it away, and says so soon.
            elif (roots[name] / "door").is_dir():
                seat = self._seats.get(name)
                if seat is None or seat.declared != one:
                    seat = self._seats[name] = Seat(roots[name], name, one, now)
                seat.look(release, unit, full, now)
                yield seat
        seats = {one["seat"]: one for one in declared.values()}
        engines = [each for each in at_work if each in found and each.startswith("vllm@")]
        for release in map(units.release_of, engines):
            where = seat_of_release(self._root, release)
            one = self._sized(seats.get(where, _NO_SEAT), release)
            # A switch ends it soon: who waits for its place is not refused.
            ends = where in switched
            yield Contender(release, one["size"], one["spare"], on_demand=ends, phase="stopping")

    def _sized(self, declared: Declared, release: str) -> Declared:
        """Return a replica with the size of a release: an earlier one may have been larger."""
        orders = state.load(self._root / f"manifests/switch@{release}.json") or {}
        return {**declared, "size": max(declared["size"], orders.get("engine") or 0)}

    def _report(self, replicas: Mapping[str, Contender]) -> None:
        """Say how things are, if they are new."""
        states = {}
        for name, each in replicas.items():
            now = {"phase": each.phase, "closed": each.closed is not None, "waiting": each.held}
            states[name] = now | (self._seats[name].record if name in self._seats else _UNSEEN)
        text = json.dumps(states)
        if text != self._said:
            self._said = text
            places.RUN.mkdir(mode=0o755, exist_ok=True)
            with suppress(OSError):
                replace(places.RUN / "turns.json", text + "\n")


def _units(named: Iterable[str]) -> dict[str, Unit]:
    """Return what systemd says of engines and switches, by name: of these, and of all it has.

    Raises:
        OSError: it says nothing, which is not to be taken for an engine's end.
    """
    own = [f"vllm@{release}.service" for release in named]
    asked = (f"--property={_PROPERTIES}", *own, "vllm@*.service", "switch@*.service")
    blocks = units.systemctl("show", *asked).split("\n\n")
    shown = (dict(line.split("=", 1) for line in block.splitlines()) for block in blocks)
    found: dict[str, Unit] = {each["Id"]: each for each in shown if each.get("Id")}
    if unknown := {*own} - {*found}:
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
