"""Whose turn it is: the next steps on a Spark that has more models than it holds at once.

A pure function of what is: who runs, who waits, since when, and what each takes. The rules, and why
they are these: DESIGN.md. All times are seconds on one clock, all sizes are bytes.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, inf

# Seconds without a request after which a model gives way, however short its turn was.
QUIET = 3.0


class Phase(StrEnum):
    """The phases of a replica's engine, by its unit."""

    STOPPED = "stopped"
    STARTING = "starting"
    SERVING = "serving"
    STOPPING = "stopping"


class Do(StrEnum):
    """The kinds of step: of a door, of an engine, or of the requests that wait at a door.

    Who is deferred is refused, and wished for still: the place is there when its clients come back.
    """

    CLOSE = "close"
    OPEN = "open"
    STOP = "stop"
    START = "start"
    REFUSE = "refuse"
    DEFER = "defer"


_MAY_GO = (Phase.SERVING, Phase.STOPPING)


@dataclass(frozen=True)
class Step:
    """One step, and why it is taken, as a clause for people; `again`: seconds until it serves."""

    do: Do
    name: str
    why: str
    again: float = 0


@dataclass(frozen=True)
class Contender:
    """A replica of the Spark, as it is declared and as it is.

    Attributes:
        size: What its engine takes.
        spare: What the host needs beside all engines while this one runs.
        on_demand: Requests start it; else it runs always, and its place is its own.
        pinned: Once started it keeps its place.
        switched: A switch is at work on it, until whose end it keeps its place.
        grouped: It is served by several Sparks, of whose fabric there is one.
        turn: Seconds for which it keeps its place after it began to serve, while it is in use.
        idle: Seconds without a request after which it is stopped; None for never.
        bound: Seconds that its start may take.
        usual: Seconds that its start usually takes; 0 where nobody knows.
        hold: Seconds for which its door holds a request.
        since: When its phase began; of one that serves, its turn.
        used: When it last had a request.
        held: How many requests wait for it now.
        waits: Since when requests wait for it, or its clients were told to come back; else None.
        closed: Since when its door lets no request in; None while it does.
        wanted_back: Since when another Spark of its group needs the place; None if none does.
        barred: Why it may not be started now; "" where it may.
    """

    name: str
    size: int
    spare: int = 0
    on_demand: bool = True
    pinned: bool = False
    switched: bool = False
    grouped: bool = False
    turn: float = 0
    idle: float | None = None
    bound: float = 3600
    usual: float = 0
    hold: float = inf
    phase: Phase = Phase.STOPPED
    since: float = 0
    used: float = 0
    in_flight: int = 0
    held: int = 0
    waits: float | None = None
    closed: float | None = None
    wanted_back: float | None = None
    barred: str = ""

    @property
    def takes(self) -> bool:
        """Tell whether its place is taken."""
        return not self.on_demand or self.phase != Phase.STOPPED

    @property
    def yields(self) -> bool:
        """Tell whether it may have to give its place to another."""
        return self.on_demand and not (self.pinned or self.switched)

    def is_quiet(self, now: float, seconds: float = QUIET) -> bool:
        """Tell whether nobody has used it for so long."""
        return not self.in_flight and now - self.used >= seconds

    def in_turn(self, now: float) -> bool:
        """Tell whether it keeps its place for now."""
        return self.closed is None and now < self.since + self.turn and not self.is_quiet(now)


_Some = Sequence[Contender]


def fit(replicas: Iterable[Contender], total: int) -> bool:
    """Tell whether engines may run together in so many bytes: those that the kernel leaves."""
    together = [*replicas]
    taken = sum(each.size for each in together) + max((each.spare for each in together), default=0)
    return taken <= total and sum(each.grouped for each in together) <= 1


def next_steps(
    replicas: Collection[Contender], total: int, now: float, drain: float
) -> Iterator[Step]:
    """Yield the steps to take now; what follows from them is for the next look.

    Args:
        drain: Seconds for which a door stays closed while answers end.
    """
    running = [each for each in replicas if each.takes]
    stays = [each for each in running if not (each.yields or each.switched)]
    wishes: list[Contender] = []
    for each in sorted(replicas, key=lambda each: (each.waits or 0, each.name)):
        if each.waits is None or each.takes:
            continue
        if why := each.barred or ("" if fit([*stays, each], total) else _crowded(stays)):
            yield Step(Do.REFUSE, each.name, why)
        elif fit([*stays, *(one for one in running if one.switched), each], total):
            wishes.append(each)
    starting = [each for each in running if each.phase == Phase.STARTING and each.on_demand]
    leaving = {each.name: why for each in running if (why := _leaves(each, now))}
    victims = victims_for(wishes[0], running, total, now) if wishes else None
    if victims and not any(each.in_turn(now) for each in victims):
        # While another one starts, their end would bring nobody a place.
        gone = (each.name for each in victims if each.closed is not None or not starting)
        leaving |= dict.fromkeys(gone, f"{wishes[0].name} is asked for")
    for each, seconds in _soonest(wishes, starting, victims or (), now):
        if each.held and seconds > each.hold:
            about = 10 * ceil(seconds / 10)
            why = f"it serves in about {about} s, and a request is held for {each.hold:.0f} s"
            yield Step(Do.DEFER, each.name, why, seconds)
    if wishes and not starting and (name := next(_startable(wishes, victims, running, total), "")):
        yield Step(Do.START, name, "it is asked for")
    for each in running:
        if each in starting and now - each.since > each.bound:
            yield Step(Do.STOP, each.name, f"it did not serve within {each.bound:.0f} s")
        elif each.phase == Phase.SERVING and each.on_demand:
            yield from _door(each, leaving.get(each.name), now, drain)
            if _overdue(each, now, drain) and victims and each in victims:
                yield Step(Do.REFUSE, wishes[0].name, f"{each.name} gives an answer that is long")


def _door(each: Contender, leaves: str | None, now: float, drain: float) -> Iterator[Step]:
    """Yield the next step of one that serves, on its way out or back."""
    if leaves is None or _overdue(each, now, drain):
        if each.closed is not None:
            yield Step(Do.OPEN, each.name, "an answer is long" if leaves else "nobody needs it")
    elif each.closed is None:
        yield Step(Do.CLOSE, each.name, leaves)
    elif not each.in_flight:
        yield Step(Do.STOP, each.name, leaves)


def _leaves(each: Contender, now: float) -> str:
    """Return why one that serves gives up its place, whoever waits; "" if it does not."""
    if each.phase != Phase.SERVING or not each.yields:
        return ""
    if each.wanted_back is not None and not each.in_turn(now):
        return "the other Spark needs its place"
    unused = each.idle is not None and each.waits is None and each.is_quiet(now, each.idle)
    return f"nobody used it for {each.idle:.0f} s" if unused else ""


def _overdue(each: Contender, now: float, drain: float) -> bool:
    return each.closed is not None and each.in_flight > 0 and now - each.closed > drain


def _soonest(
    wishes: _Some, starting: _Some, victims: _Some, now: float
) -> Iterator[tuple[Contender, float]]:
    """Yield those of which it is known what a start takes, and in how many seconds it may serve.

    At the earliest: the start of another, and the turn of one that has to go, come before.
    """
    ahead = 0.0
    for each in starting:
        if each.usual:
            ahead = max(0.0, each.since + each.usual - now)
            yield each, ahead
    for wish in wishes:
        turns = [each.since + each.turn - now for each in victims if each.in_turn(now)]
        before = max(turns, default=0.0) if wish is wishes[0] else 0.0
        if wish.usual:
            yield wish, max(ahead, before) + wish.usual


def victims_for(
    wish: Contender, running: Iterable[Contender], total: int, now: float
) -> list[Contender] | None:
    """Return those that have to go for one; None if that would not be enough.

    Those on their way out come first, then those whose turn is over, then those that nobody uses,
    and of these the least recently used.
    """
    rest, gone = [*running], []
    may_go = [each for each in rest if each.yields and each.phase in _MAY_GO]
    may_go.sort(key=lambda each: (each.in_turn(now), each.in_flight > 0, each.used))
    for each in sorted(may_go, key=lambda each: (each.phase == Phase.SERVING, each.closed is None)):
        if fit([*rest, wish], total):
            break
        rest.remove(each)
        gone.append(each)
    for each in reversed(gone.copy()):
        # A large one that has to go may spare a small one.
        if fit([*rest, each, wish], total):
            rest.append(each)
            gone.remove(each)
    return gone if fit([*rest, wish], total) else None


def _startable(wishes: _Some, victims: _Some | None, running: _Some, total: int) -> Iterator[str]:
    """Yield what may start now, the best first: the first, or one that takes nothing from it."""
    first, *others = wishes
    if fit([*running, first], total):
        yield first.name
    left = [each for each in running if each not in (victims or ())]
    for each in others if victims is not None else ():
        if fit([*running, each], total) and fit([*left, first, each], total):
            yield each.name


def _crowded(stays: Iterable[Contender]) -> str:
    names = " and ".join(each.name for each in stays)
    return f"it does not fit beside {names}" if names else "it does not fit into the memory"
