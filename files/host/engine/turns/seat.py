"""The replicas of a Spark on which models take turns, as the loop finds them."""

from collections.abc import Mapping
from contextlib import suppress
from math import ceil, inf
from pathlib import Path
from typing import Any

from host.common import starts
from host.common.log import log
from host.common.seat import laid_down
from host.door.door import Door, recorded_hold
from host.engine.places import Room
from host.engine.switch import units
from host.engine.switch.candidate import MARGIN
from host.engine.turns.decision import Contender, Phase, Step

# Seconds for which a wish lasts after its client has gone: one that was answered 503 asks again.
WISH = 15.0
# Seconds for which a model is refused after a start that failed, and within which what waits has
# heard so: haproxy tries each request again every second.
PAUSE, HEARD = 300, 1.2
# The same of a start that somebody has stopped.
STOPPED = 10.0
# Seconds for which a model whose clients were told to come back waits for them: its turn may be
# shorter, and would end before they ask again.
BACK = 60.0
# Seconds after which a client may ask again whose model has no place, as an answer of another is
# long; and those of a start that nobody has seen.
LONG, UNSEEN = 60, 120

_PHASES: dict[str, Phase] = {
    **{"active": "serving", "reloading": "serving"},
    **{"activating": "starting", "deactivating": "stopping"},
}
_DECLARED = ("size", "spare", "turn", "idle", "grouped", "on_demand", "pinned")

# What systemd says of a unit, and a run of a replica.
Unit = Mapping[str, str]
Declared = Mapping[str, Any]


class Seat(Contender):
    """A replica with its door, as it was at the last look; what is forgotten here is found anew."""

    def __init__(self, place: Path, name: str, declared: Declared, now: float) -> None:
        super().__init__(name, since=now, used=now, **{key: declared[key] for key in _DECLARED})
        self.declared = declared
        self._place, self._door, self._release = place, Door(place), ""
        # Until when it is wished for; without end where clients were told to come back.
        self._wished = now
        # Until when its door refuses what would wait, and why; at first nobody knows.
        self._refuses: tuple[float, str] | None = now, ""
        # Until when it is not started again, why, and while its unit is in which state; "" for any.
        self._failed = now, "", ""
        self._starts = self._hits = self._refused = 0

    def look(self, release: str, unit: Unit, full: str, now: float) -> None:
        """Take note of how it is now; `full` is why nothing is begun on the Spark, or ""."""
        if release != self._release:
            self._release, self._failed = release, (now, "", "")
            self.usual = starts.usual(starts.alike(self._place, release))
        self._follow(unit, now)
        self.in_flight, self.held, self._hits = self._door.counts(release)
        if self.in_flight or self.held:
            self.used = max(self.used, now)
        self.barred = self._barred(unit, full, now)
        over = self._refuses and (now >= self._refuses[0] or self.phase == "serving")
        if over and not self.barred:
            self._door.let_wait(True)
            self._refuses = None
        if self.held:
            self._wished = max(self._wished, now + WISH)
            self.waits = now if self.waits is None else self.waits
        elif self.phase == "serving" or now > self._wished:
            self.waits = None
        if not self._door.is_closed:
            self.closed = None
        elif self.phase == "stopped" and self.on_demand:
            # What comes now waits for the next turn.
            self._door.prefer(release)
            self.closed = None
        elif self.closed is None:
            self.closed = now
        self.wanted_back = Room(self._place, release).back.exists()
        self.bound = laid_down(self._place, release).get("start_timeout", 3600) + MARGIN
        hold = self.declared["hold"]
        self.hold = recorded_hold(self._place, release) if hold is None else hold
        if self.on_demand and self.held and self.phase == "stopped" and self._refuses is None:
            self._tell("other models of this Spark have their turn")

    @property
    def record(self) -> dict[str, Any]:
        """Its counters, and the reason for which it is refused; DESIGN.md has the keys."""
        counts = {"starts": self._starts, "hits": self._hits, "refused": self._refused}
        why = (self._refuses and self._refuses[1]) or self.barred
        return {**counts, "seconds": round(self.usual) or UNSEEN, "why": why}

    def _follow(self, unit: Unit, now: float) -> None:
        """Take note of the phase; between two of systemd's tries a start goes on."""
        phase, starts_now = phase_of(unit), self.phase == "starting"
        # One that has served since the last look is over.
        served = int(unit.get("ActiveEnterTimestampMonotonic") or 0) / 1e6 > self.since
        if starts_now and phase == "stopping" and not served:
            phase = "starting"
        if phase == "starting" and not starts_now and unit["ActiveState"] not in _PHASES:
            # A job waits for a stopped unit, which may be its stop.
            phase = "stopping"
        if phase == self.phase:
            return
        if starts_now and phase == "serving":
            self._starts += 1
            self.usual = starts.usual(starts.alike(self._place, self._release)) or self.usual
            self._door.tell()
        elif starts_now and phase == "stopped" and not served and now >= self._failed[0]:
            # Who has stopped it by hand did not mean the requests that wait.
            state = unit.get("ActiveState", "")
            until = now + (PAUSE if state == "failed" else STOPPED)
            self._failed = until, unit.get("StatusText") or "it was stopped", state
        self.phase, self.since = phase, now
        if phase == "serving":
            self.used = now + BACK if self._wished == inf else now
            self.since = max(now, self.used - self.turn)
            self._wished = now

    def _barred(self, unit: Unit, full: str, now: float) -> str:
        if unit.get("LoadState") == "masked":
            return "it is stopped, until its owner starts it"
        if not self._release:
            return "it was not set up yet"
        until, why, state = self._failed
        # A run has systemd forget that it failed.
        if now < until and state in ("", unit.get("ActiveState", "")):
            return f"its start failed: {why}"
        return full if self.phase == "stopped" else ""

    def _tell(self, why: str) -> None:
        """Tell who waits the reason, and when to ask again."""
        self._door.tell(why, round(self.usual) or UNSEEN)

    def close(self, _: Step, now: float) -> None:
        """Let no request in: what comes waits for its next turn."""
        self._door.hold()
        self.closed = now

    def open(self, _: Step, now: float) -> None:
        """Let requests in, for another turn."""
        self._door.prefer(self._release)
        self.closed, self.since = None, now

    def refuse(self, step: Step, now: float) -> None:
        """Refuse what waits, and what comes while its model may not be started, or is too late."""
        again = 10 * ceil(step.again / 10) or (PAUSE if self.barred else LONG)
        self._door.tell(step.why, again)
        self._door.let_wait(False)
        self._refused += self.held if self._refuses is None else 0
        self._refuses = now + max(HEARD, step.again - self.hold), step.why
        if step.again:
            self._wished = inf
        else:
            self.waits, self._wished = None, now

    def stop(self, step: Step, now: float) -> None:
        """Give its place up; a start that is stopped has failed."""
        if self.phase == "starting":
            self._failed, self.phase = (now + PAUSE, step.why, ""), "stopping"
        units.systemctl("stop", "--no-block", f"vllm@{self._release}.service")

    def start(self, _: Step, now: float) -> None:
        """Begin its start; if nothing comes of it, the next look finds that it has failed."""
        Room(self._place, self._release).give_up()
        names = self._door.haproxy.names().items()
        log(f"{self.name} was asked for by {', '.join(who for who, n in names if n[1])}")
        self._tell(f"it starts, which takes about {round(self.usual) or UNSEEN} s")
        unit = f"vllm@{self._release}.service"
        units.reset_failed(unit)
        units.systemctl("start", "--no-block", unit)
        self.phase, self.since = "starting", now


class Guest(Contender):
    """A replica for which a program asks for a place: a switch of it, or a group's worker.

    Memory waits for it elsewhere, or a door: so it comes before all that wait here. It ends its
    turn by itself.
    """

    def __init__(
        self, name: str, declared: Declared, room: Room, phase: Phase, full: str, now: float
    ) -> None:
        own = {key: declared[key] for key in _DECLARED}
        super().__init__(name, **own, bound=inf, phase=phase, barred=full, used=inf, in_flight=1)
        self._room = room
        self.on_demand |= room.asks.exists() or room.go.exists()
        self.waits = 0 if room.asks.exists() and phase == "stopped" else None
        self.closed = now if room.back.exists() else None

    def start(self, _: Step, now: float) -> None:
        """Give it the place for which it waits; it may have gone."""
        with suppress(FileNotFoundError):
            self._room.asks.rename(self._room.go)

    def close(self, _: Step, now: float) -> None:
        """Ask for its place back."""
        self._room.back.touch()

    def open(self, _: Step, now: float) -> None:
        """Ask no more."""
        self._room.back.unlink(missing_ok=True)

    def refuse(self, _: Step, now: float) -> None:
        """Let it wait: its head, or the switch, knows for how long."""


def phase_of(unit: Unit) -> Phase:
    found = _PHASES.get(unit.get("ActiveState", ""), "stopped")
    return "starting" if found == "stopped" and unit.get("Job") else found
