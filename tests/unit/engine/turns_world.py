"""A Spark in virtual time: engines that take turns by the real decision, and clients who wait."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from host.engine.turns.decision import Contender, Step, fit, next_steps

LOOK = 0.5
_STILL = ("stopped", "serving")


@dataclass
class Request:
    """What a client asks: when, for how long, and how that ended."""

    name: str
    came: float
    length: float
    hold: float = 590
    began: float | None = None
    ended: float | None = None
    refused: str = ""


class World:
    """One Spark; every look checks that the rules that are never broken hold."""

    def __init__(
        self, replicas: Sequence[Contender], total: int, *, drain=300.0, start=30.0, stop=2.0
    ) -> None:
        self.replicas = {each.name: each for each in replicas}
        self.total, self.drain, self.start, self.stop = total, drain, start, stop
        self.now = 0.0
        self.steps: list[tuple[float, Step]] = []
        self.open: list[Request] = []

    def run(self, requests: Sequence[Request]) -> None:
        """Have all requests come and end."""
        coming = sorted(requests, key=lambda each: each.came)
        while coming or self.open:
            if not self.open and all(each.phase in _STILL for each in self.replicas.values()):
                # Nothing happens until the next request comes, but for what is unused for too long.
                self.now = max(self.now, coming[0].came)
            while coming and coming[0].came <= self.now:
                self.open.append(coming.pop(0))
            self.look()

    def look(self) -> None:
        """Let a moment pass: clients, engines, then the decision."""
        self.now += LOOK
        for request in self.open:
            if request.began is not None and self.now >= request.began + request.length:
                request.ended = self.now
            elif request.began is None and self._lets_in(request.name):
                request.began = self.now
            elif request.began is None and self.now > request.came + request.hold:
                request.refused = "held for too long"
        self.open = [each for each in self.open if each.ended is None and not each.refused]
        for name, each in self.replicas.items():
            if self.has_ended(each):
                starts = each.phase == "starting"
                new = "serving" if starts else "stopped"
                closed = each.closed if starts else None
                self._set(name, phase=new, since=self.now, used=self.now, closed=closed)
            here = [one for one in self.open if one.name == name]
            flying = [one for one in here if one.began is not None]
            waits = min((one.came for one in here if one.began is None), default=None)
            self._set(name, in_flight=len(flying), waits=waits)
            if flying:
                self._set(name, used=self.now)
        found = self.contenders()
        for step in [*next_steps(found, self.total, self.now, self.drain)]:
            self.steps.append((self.now, step))
            self.take(step)
        found = self.contenders()
        assert fit([each for each in found if each.takes], self.total)
        assert sum(each.phase == "starting" for each in found) <= 1

    def contenders(self) -> list[Contender]:
        return [*self.replicas.values()]

    def has_ended(self, each: Contender) -> bool:
        """Tell whether the start or the stop of an engine is over."""
        lasts = {"starting": self.start, "stopping": self.stop}.get(each.phase)
        return lasts is not None and self.now >= each.since + lasts

    def _lets_in(self, name: str) -> bool:
        each = self.replicas[name]
        return each.phase == "serving" and each.closed is None

    def _set(self, name: str, **values) -> None:
        self.replicas[name] = replace(self.replicas[name], **values)

    def take(self, step: Step) -> None:
        each = self.replicas[step.name]
        match step.do:
            case "close":
                assert each.phase == "serving"
                self._set(step.name, closed=self.now)
            case "open":
                self._set(step.name, closed=None, since=self.now)
            case "stop":
                assert each.on_demand
                assert not each.in_flight
                assert each.closed is not None or each.phase == "starting"
                assert not each.pinned or each.phase == "starting"
                self._set(step.name, phase="stopping", since=self.now)
            case "start":
                assert each.phase == "stopped"
                self._set(step.name, phase="starting", since=self.now)
            case "refuse":
                for request in self.open:
                    if request.name == step.name and request.began is None:
                        request.refused = step.why
                self.open = [each for each in self.open if not each.refused]


def wait_beyond(
    name: str,
    came: float,
    began: float,
    stops: Iterable[tuple[float, str]],
    spans: Iterable[tuple[str, float, float]],
) -> float:
    """Return for how long a request waited beyond answers of the models that had to give way.

    Args:
        stops: when each engine was stopped.
        spans: whose answer began and ended when.
    """
    gone = {other: at for at, other in sorted(stops, reverse=True) if came <= at <= began}
    clipped = sorted(
        (max(begin, came), min(end, gone[other]))
        for other, begin, end in spans
        if other in gone and other != name and begin < gone[other] and end > came
    )
    total, until = 0.0, came
    for begin, end in clipped:
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return began - came - total
