"""Whose turn it is: the next steps on a Spark that has more models than it holds at once.

A pure function of what is: who runs, who waits, since when, and what each takes. The rules, and why
they are these: DESIGN.md. All times are seconds on one clock, all sizes are bytes.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from math import ceil, inf
from typing import Literal

# Seconds without a request after which a model gives way, however short its turn was.
QUIET = 3.0
# The phases of a replica's engine, by its unit.
Phase = Literal["stopped", "starting", "serving", "stopping"]
# The kinds of step: of a door, of an engine, or of the requests that wait. Each is a method of what
# `seat` has.
Do = Literal["close", "open", "stop", "start", "refuse"]


@dataclass(frozen=True)
class Step:
    """One step, and why it is taken, as a clause for people.

    `again` is of a refusal: in so many seconds it serves, and is wished for still; 0: nobody knows.
    """

    do: Do
    name: str
    why: str
    again: float = 0


@dataclass(eq=False)
class Contender:
    """A replica of the Spark, as it is declared, of which DESIGN.md has a table, and as it is.

    Attributes:
        bound: Seconds that its start may take.
        usual: Seconds that its start usually takes; 0 where nobody knows.
        hold: Seconds for which its door holds a request.
        since: When its phase began; of one that serves, its turn.
        used: When it last had a request.
        held: How many requests wait for it now.
        waits: Since when requests wait for it, or its clients were told to come back; else None.
        closed: Since when its door lets no request in; None while it does.
        wanted_back: Another Spark of its group needs its place there.
        barred: Why it may not be started now; "" where it may.
    """

    name: str
    size: int
    spare: int = 0
    on_demand: bool = True
    pinned: bool = False
    grouped: bool = False
    turn: float = 0
    idle: float | None = None
    bound: float = 3600
    usual: float = 0
    hold: float = inf
    phase: Phase = "stopped"
    since: float = 0
    used: float = 0
    in_flight: int = 0
    held: int = 0
    waits: float | None = None
    closed: float | None = None
    wanted_back: bool = False
    barred: str = ""

    @property
    def takes(self) -> bool:
        """Tell whether its place is taken."""
        return not self.on_demand or self.phase != "stopped"

    @property
    def yields(self) -> bool:
        """Tell whether it may have to give its place to another."""
        return self.on_demand and not self.pinned

    def is_quiet(self, now: float, seconds: float = QUIET) -> bool:
        """Tell whether nobody has used it for so long."""
        return not self.in_flight and now - self.used >= seconds

    def in_turn(self, now: float) -> bool:
        """Tell whether it keeps its place for now."""
        turn = max(self.turn, QUIET)  # its door lets in who waited within a second or two
        return self.closed is None and now < self.since + turn and not self.is_quiet(now)


def fit(replicas: Iterable[Contender], total: int) -> bool:
    """Tell whether engines may run together in so many bytes: those that the kernel leaves."""
    together = [*replicas]
    taken = sum(each.size for each in together) + max((each.spare for each in together), default=0)
    return taken <= total and sum(each.grouped for each in together) <= 1


def next_steps(
    replicas: Collection[Contender], total: int, now: float, drain: float
) -> Iterator[Step]:
    """Yield the steps to take now; a door stays closed for `drain` seconds while answers end."""
    running = [each for each in replicas if each.takes]
    stays = [each for each in running if not each.yields]
    wishes: list[Contender] = []
    for each in sorted(replicas, key=lambda each: (each.waits or 0, each.name)):
        if each.waits is None or each.takes:
            continue
        beside = " and ".join(one.name for one in stays)
        crowded = "" if fit([*stays, each], total) else f"it does not fit beside {beside}"
        if why := each.barred or crowded:
            yield Step("refuse", each.name, why)
        else:
            wishes.append(each)
    starting = [each for each in running if each.phase == "starting" and each.on_demand]
    leaving = {each.name: why for each in running if (why := _leaves(each, now))}
    victims = victims_for(wishes[0], running, total, now) if wishes else None
    if victims and not any(each.in_turn(now) for each in victims):
        # While another one starts, their end would bring nobody a place.
        gone = (each.name for each in victims if each.closed is not None or not starting)
        leaving |= dict.fromkeys(gone, f"{wishes[0].name} is asked for")
    # It may serve after the start of another, and the turn of one that has to go, at the earliest.
    begins = [each.since + each.usual for each in starting if each.usual]
    turns = [each.since + each.turn for each in victims or () if each.in_turn(now)]
    for each in (*starting, *wishes):
        before = [now, *begins, *(turns if each in wishes[:1] else ())]
        seconds = max(before) - now + (each.usual if each in wishes else 0)
        if each.usual and each.held and seconds > each.hold:
            about = 10 * ceil(seconds / 10)
            why = f"it serves in about {about} s, and a request is held for {each.hold:.0f} s"
            yield Step("refuse", each.name, why, seconds)
    if victims is not None and not starting:
        left = [each for each in running if each not in victims]
        for each in wishes:
            # The first, or one that takes nothing from it.
            if fit([*running, each], total) and fit([*left, *{wishes[0], each}], total):
                yield Step("start", each.name, "it is asked for")
                break
    for each in running:
        if each in starting and now - each.since > each.bound:
            yield Step("stop", each.name, f"it did not serve within {each.bound:.0f} s")
        elif each.phase == "serving" and each.on_demand:
            yield from _door(each, leaving.get(each.name), now, drain)
            if _overdue(each, now, drain) and victims and each in victims:
                yield Step("refuse", wishes[0].name, f"{each.name} gives an answer that is long")


def _door(each: Contender, leaves: str | None, now: float, drain: float) -> Iterator[Step]:
    """Yield the next step of one that serves, on its way out or back."""
    if leaves is None or _overdue(each, now, drain):
        if each.closed is not None:
            yield Step("open", each.name, "an answer is long" if leaves else "nobody needs it")
    elif each.closed is None:
        yield Step("close", each.name, leaves)
    elif not each.in_flight:
        yield Step("stop", each.name, leaves)


def _leaves(each: Contender, now: float) -> str:
    """Return why one that serves gives up its place, whoever waits; "" if it does not."""
    if each.phase != "serving" or not each.yields:
        return ""
    if each.wanted_back and not each.in_turn(now):
        return "the other Spark needs its place"
    unused = each.idle is not None and each.waits is None and each.is_quiet(now, each.idle)
    return f"nobody used it for {each.idle:.0f} s" if unused else ""


def _overdue(each: Contender, now: float, drain: float) -> bool:
    return each.closed is not None and each.in_flight > 0 and now - each.closed > drain


def victims_for(
    wish: Contender, running: Iterable[Contender], total: int, now: float
) -> list[Contender] | None:
    """Return those that have to go for one; None if that would not be enough.

    Those on their way out come first, then those whose turn is over, then those that nobody uses,
    and of these the least recently used.
    """
    rest, gone = [*running], []
    may_go = [each for each in rest if each.yields and each.phase in ("serving", "stopping")]
    may_go.sort(key=lambda each: (each.in_turn(now), each.in_flight > 0, each.used))
    for each in sorted(may_go, key=lambda each: (each.phase == "serving", each.closed is None)):
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
