"""A replica of a Spark on which models take turns: its door and unit, as the loop finds them."""

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any

from host.common import starts
from host.common.log import log
from host.common.seat import SEATS, laid_down
from host.door.door import Door, recorded_hold
from host.engine import places
from host.engine.switch import units
from host.engine.switch.candidate import MARGIN
from host.engine.turns.decision import Contender, Phase, Step

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

_PHASES = {
    **dict.fromkeys(("active", "reloading"), Phase.SERVING),
    **{"activating": Phase.STARTING, "deactivating": Phase.STOPPING},
}
# What the decision gets as it is declared, and as a seat has it.
_DECLARED = ("size", "spare", "turn", "idle", "grouped", "on_demand", "pinned")
_SEEN = (
    *("bound", "usual", "hold", "phase", "since", "used", "in_flight", "held"),
    *("waits", "closed", "wanted_back", "barred"),
)


class Seat:
    """A replica as it was at the last look; what is forgotten here is found anew."""

    def __init__(self, root: Path, name: str, declared: Mapping[str, Any], now: float) -> None:
        self.name, self.declared = name, declared
        self.place = root / SEATS / declared["seat"] if declared["seat"] else root
        self.door = Door(self.place)
        # What it should serve, and what a switch under way tries.
        self.release = self.new = ""
        self.phase, self.since, self.used, self.asked = Phase.STOPPED, now, now, now
        # Since when a start is under way, however often systemd tries.
        self.begun: float | None = None
        self.waits: float | None = None
        self.closed: float | None = None
        self.wanted_back: float | None = None
        # Until when its door refuses what would wait; at first nobody knows.
        self.refuses: float | None = now
        self.is_deferred = False
        self.in_flight = self.held = self.hits = self.starts = self.refused = 0
        # Until when it is not started again, and why; and whether systemd has its unit so.
        self.failed, self.is_known = (now, ""), False
        self.barred = self.why = ""
        self.usual, self.hold, self.bound = 0.0, 0.0, inf
        self.step: Step | None = None

    def point(self, release: str) -> None:
        """Take note of the release that it should serve."""
        if release != self.release:
            self.release, self.failed = release, (0.0, "")
            self.usual = starts.usual(starts.alike(self.place, release))

    def look(self, unit: Mapping[str, str], switched: bool, full: str, now: float) -> Contender:
        """Return the replica as it is now.

        Args:
            unit: what systemd says of the engine of its release.
            switched: a switch is at work on it: everything about it stays as it is.
            full: why nothing is begun on the Spark; "" where there is room.
        """
        self._follow(phase_of(unit), unit, now)
        self.in_flight, self.held, self.hits = self.door.counts(self.release)
        if self.in_flight or self.held:
            self.used = max(self.used, now)
        self.barred = self._barred(unit, full, now)
        over = self.refuses is not None and (now >= self.refuses or self.phase == Phase.SERVING)
        if over and not self.barred:
            self.door.let_wait()
            self.refuses, self.why = None, ""
        if self.held:
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
        back = places.Room(self.place, self.release).back
        if self.phase == Phase.STOPPED:
            back.unlink(missing_ok=True)
        self.wanted_back = now if back.exists() else None
        self.bound = laid_down(self.place, self.release).get("start_timeout", 3600) + MARGIN
        hold = self.declared["hold"]
        self.hold = recorded_hold(self.place, self.release) if hold is None else hold
        return self._told(switched)

    def _told(self, switched: bool) -> Contender:
        told = {key: self.declared[key] for key in _DECLARED}
        told |= {key: getattr(self, key) for key in _SEEN}
        return Contender(self.name, switched=switched, **told)

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

    def keep_out(self, now: float) -> None:
        """Let no request in: what comes waits for its next turn."""
        self.door.hold()
        self.closed = now

    def let_in(self, now: float) -> None:
        """Let requests in, for another turn."""
        self.door.prefer(self.release)
        self.closed, self.since = None, now

    def refuse(self, why: str, again: float, until: float) -> None:
        """Refuse what waits, and what comes until then, or while its model may not be started."""
        self.door.refuse(why, round(again))
        self.refused += self.held if self.refuses is None else 0
        self.refuses, self.why = until, why

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


class Worker(Seat):
    """The seat of a group's worker: of its door and its requests only its head knows."""

    @property
    def _asked(self) -> places.Room:
        return places.Room(self.place, f"{self.release}.worker")

    def look(self, unit: Mapping[str, str], switched: bool, full: str, now: float) -> Contender:
        """Return it as it is now: it wishes for a place, or has one, which may be asked back."""
        place, phase = self._asked, phase_of(unit)
        if phase == Phase.STOPPED:
            place.give_up()
        if not place.go.exists():
            phase = Phase.STOPPED
        if phase != self.phase:
            if phase == Phase.STOPPED and self.release:
                # The end of a turn is no failure: systemd is not to count it as one.
                units.reset_failed(f"vllm@{self.release}.service")
            self.phase, self.since = phase, now
        waits = now if self.waits is None else self.waits
        self.waits = waits if phase == Phase.STOPPED and place.asks.exists() else None
        self.closed = (self.closed or now) if place.back.exists() else None
        # Whoever uses it, its head ends its turn.
        self.in_flight, self.used, self.barred = 1, now, full
        return self._told(switched)

    def start(self, now: float) -> None:
        """Give it the place for which it waits."""
        self._asked.go.touch()

    def keep_out(self, now: float) -> None:
        """Ask for its place back."""
        self._asked.back.touch()

    def let_in(self, now: float) -> None:
        """Ask no more."""
        self._asked.back.unlink(missing_ok=True)
        self.since = now

    def refuse(self, why: str, again: float, until: float) -> None:
        """Let it wait: its head knows for how long."""


def phase_of(unit: Mapping[str, str]) -> Phase:
    found = _PHASES.get(unit.get("ActiveState", ""), Phase.STOPPED)
    return Phase.STARTING if found == Phase.STOPPED and unit.get("Job") else found
