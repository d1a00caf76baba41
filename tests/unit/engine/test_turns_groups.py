"""Groups that take turns on the same Sparks, and with models of each, by their own programs."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host.engine import places
from host.engine.places import GroupRoom
from host.engine.turns.decision import Contender, Phase, Step
from host.engine.turns.seat import Guest
from tests.unit.engine.turns_world import LOOK, Request, World

TOTAL = 10
# Seconds within which all is served, if nobody waits for whom he keeps waiting.
ENOUGH = 20_000


class Links:
    """The words that the supervisors of a group say to one another."""

    def __init__(self, said: list[set[str]], rank: int) -> None:
        self._said, self._rank = said, rank

    @property
    def _others(self) -> list[set[str]]:
        return self._said[:1] if self._rank else self._said[1:]

    def say(self, word: str) -> None:
        self._said[self._rank].add(word)

    def have_said(self, word: str) -> bool:
        return any(word in each for each in self._others)

    async def all_say(self, word: str) -> None:
        while not all(word in each for each in self._others):
            await asyncio.sleep(0)


class Group:
    """A group, by the real programs of its places; `begun`: since when all have containers."""

    def __init__(self, name: str, size: int, sparks: list["Spark"]) -> None:
        self.name, self.size, self.sparks = name, size, sparks
        self.rooms = [spark.room(name, rank) for rank, spark in enumerate(sparks)]
        self.begun: float | None = None
        self._asks: dict[int, Coroutine[Any, Any, None]] = {}
        self._passes: list[Coroutine[Any, Any, None]] = []

    @property
    def head(self) -> Contender:
        return self.sparks[0].replicas[self.name]

    def live(self, now: float) -> None:
        """Let the supervisors do what they can: the head's runs while its unit does."""
        if self.head.phase == "stopped" and self._passes:
            self._end()
        elif self.head.phase == "starting" and not self._passes:
            said: list[set[str]] = [set() for _ in self.sparks]
            for rank, room in enumerate(self.rooms):
                links: Any = Links(said, rank)
                self._asks[rank] = room.take(links)
                self._passes.append(room.pass_on(links))
        for rank, coroutine in [*self._asks.items()]:
            with suppress(StopIteration):
                coroutine.send(None)
                continue
            del self._asks[rank]
            # From here on its container takes memory.
            assert all(room._room.go.exists() for room in self.rooms[1:])
        if self._passes and not self._asks and self.begun is None:
            self.begun = now
        for each in self._passes:
            each.send(None)
        self.head.wanted_back = self.rooms[0]._room.back.exists()

    def _end(self) -> None:
        for each in (*self._asks.values(), *self._passes):
            each.close()
        self._asks, self._passes, self.begun = {}, [], None
        for room in self.rooms:
            room.give_up()
        self.rooms[0]._room.give_up()


class Spark(World):
    """One of several Sparks: of the groups that it is not the head of, it knows places alone."""

    def __init__(self, folder: Path, replicas: list[Contender]) -> None:
        super().__init__(replicas, TOTAL, drain=100, start=20, stop=2)
        self._folder = folder
        self.groups: list[Group] = []
        (folder / "manifests").mkdir(parents=True)
        (folder / places.MANIFEST).touch()

    def room(self, name: str, rank: int) -> GroupRoom:
        places.RUN = self._folder
        return GroupRoom(self._folder, name, rank)

    def contenders(self) -> list[Contender]:
        return [*self.replicas.values(), *self._guests()]

    def _guests(self) -> Iterator[Guest]:
        for group in self.groups:
            if (rank := group.sparks.index(self)) > 0:
                room = group.rooms[rank]._room
                phase: Phase = "starting" if group.head.phase == "starting" else "serving"
                if not room.go.exists():
                    phase = "stopped"
                own = {"size": group.size, "spare": 0, "turn": 30, "idle": None, "grouped": True}
                declared = {**own, "on_demand": True, "pinned": False}
                yield Guest(group.name, declared, room, phase, "", self.now)

    def has_ended(self, each: Contender) -> bool:
        own = [group for group in self.groups if group.name == each.name]
        if own and each.phase == "starting":
            return own[0].begun is not None and self.now >= own[0].begun + self.start
        return super().has_ended(each)

    def take(self, step: Step) -> None:
        for guest in self._guests():
            if guest.name == step.name:
                getattr(guest, step.do)(step, self.now)
                return
        super().take(step)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each look of a supervisor is one of the simulation.
    monkeypatch.setattr(places, "LOOK", 0)
    monkeypatch.setattr(places, "RUN", places.RUN)


SIZES = st.lists(st.integers(3, TOTAL), min_size=1, max_size=2)
ASKED = st.lists(
    st.tuples(st.integers(0, 7), st.floats(0, 200), st.floats(1, 90)), min_size=8, max_size=25
)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(3, TOTAL), min_size=2, max_size=2),
    st.lists(SIZES, min_size=3, max_size=3),
    ASKED,
)
def test_groups_on_the_same_sparks_never_wait_for_one_another(
    groups: list[int], singles: list[list[int]], asked: list[tuple[int, float, float]]
) -> None:
    """Whoever asks for whom, all are served, and no Spark ever holds more than it has (`World`)."""
    with TemporaryDirectory() as folder:
        sparks = []
        for number, sizes in enumerate(singles):
            own = [Contender(f"s{number}-{n}", size, turn=30) for n, size in enumerate(sizes)]
            if number == 0:
                own += [
                    Contender(f"g{n}", size, turn=30, grouped=True) for n, size in enumerate(groups)
                ]
            sparks.append(Spark(Path(folder) / f"{number}", own))
        found = [Group(f"g{n}", size, sparks) for n, size in enumerate(groups)]
        for spark in sparks:
            spark.groups = found
        doors = [(spark, name) for spark in sparks for name in spark.replicas]
        requests = [
            (doors[n % len(doors)][0], Request(doors[n % len(doors)][1], came, length, hold=ENOUGH))
            for n, came, length in asked
        ]
        coming = sorted(requests, key=lambda each: each[1].came)
        now = 0.0
        while coming or any(spark.open for spark in sparks):
            now += LOOK
            while coming and coming[0][1].came <= now:
                spark, request = coming.pop(0)
                spark.open.append(request)
            for spark in sparks:
                spark.look()
            for group in found:
                group.live(now)
            assert now < ENOUGH
        assert [each.refused for _, each in requests] == [""] * len(requests)
        for group in found:
            group._end()
