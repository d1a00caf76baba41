"""What happens in a campaign, drawn from its seed before anything is started.

A round begins with Sparks as they left the factory, and is a row of scenes; a scene is an act, and
the faults amid it. A round depends on the seed and its own number alone. What is drawn here changes
the rounds of all seeds: so each is written down before it is played, and replayed from there.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Topology = Literal["one", "pair", "ring", "switch", "fleet"]
SPARKS: dict[Topology, int] = {"one": 1, "pair": 2, "ring": 3, "switch": 4, "fleet": 3}
_WEIGHTS: dict[Topology, int] = {"one": 4, "pair": 5, "ring": 1, "switch": 1, "fleet": 2}
# Those whose Sparks serve one model together.
GROUPS: frozenset[Topology] = frozenset({"pair", "ring", "switch"})
# To bring up Sparks takes as long as two or three scenes on them.
_SCENES = 8
_TWO_FAULTS, _STANDBYS = 0.35, 0.5

# The worst that clients may see, each beside those before it: whole answers only; 503; an answer
# that breaks off; no connection.
WHOLE, REFUSED, BROKEN, UNREACHABLE = range(4)

_ALL = frozenset(SPARKS)


@dataclass(frozen=True)
class Act:
    """Something that an operator does, or nothing.

    A fault may count its time from `moments`, texts in the run's output. `clients` is the worst
    that they may see of it where no two engines run side by side.
    """

    moments: tuple[str, ...]
    clients: int = WHOLE
    switches: bool = False
    topologies: frozenset[Topology] = _ALL


_BEFORE = ("Preflight |", "Host |", "Hugging Face tools |", "Image |", "Door |")
# What starts, or its standby, which is made before the previous engine stops.
_STARTS = "switch: it"
_SWITCH = ("Engine | Release", "Engine | Serve", _STARTS, "engine: ", "on trial")

ACTS: dict[str, Act] = {
    "deploy": Act((*_BEFORE, "Weights |", "downloading", "extracting", *_SWITCH[:4])),
    "serve": Act(()),
    "switch": Act((*_BEFORE, *_SWITCH, "is stopped"), REFUSED, switches=True),
    # vLLM refuses the command line of the new release.
    "broken switch": Act((*_SWITCH[:4], "taken back"), REFUSED),
    "rollback": Act(("Rollback |", *_SWITCH[2:], "is stopped"), REFUSED, switches=True),
    "rollout": Act(
        ("Preflight |", "lab1 switches", "lab2 switches", "lab3 switches", "on trial"),
        switches=True,
        topologies=frozenset({"fleet"}),
    ),
    # A Spark has lost weights and image. Its engine was stopped by hand: what comes while it drains
    # has vLLM's 500, as the door hears of no such stop.
    "restore": Act((*_BEFORE, "Weights |", "downloading", "copying", "extracting"), BROKEN),
    "build": Act(
        ("Image |", "building", "unit ", "Image | Engine image f", *_SWITCH),
        REFUSED,
        switches=True,
        topologies=frozenset({"one", "pair"}),
    ),
}


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    `clients` is the worst that they may see of it until the replica serves again. Where it is
    `alone`, the product promises to survive it only if nothing else goes wrong; where it `heals`,
    to serve again without a further run. `head`: only the head of a group has what it hits.
    """

    clients: int = WHOLE
    seconds: tuple[float, float] = (0, 0)
    acts: frozenset[str] = frozenset(ACTS)
    topologies: frozenset[Topology] = _ALL
    alone: bool = False
    heals: bool = True
    head: bool = False


_BRIEF, _LONG = (2.0, 15.0), (5.0, 40.0)
_RUNS = frozenset(ACTS) - {"serve"}
_FETCHES = frozenset({"deploy", "restore"})
_SWITCHES = frozenset(name for name, act in ACTS.items() if act.switches) | {"broken switch"}

FAULTS: dict[str, Kind] = {
    "engine killed": Kind(BROKEN),
    "engine hangs": Kind(BROKEN),
    "supervisor killed": Kind(BROKEN),
    "supervisor hangs": Kind(BROKEN),
    "memory short": Kind(BROKEN),
    # What takes all memory is ended, or the engine: it is what the kernel ends first.
    "memory bomb": Kind(BROKEN, _BRIEF),
    "engine eats all": Kind(BROKEN, _BRIEF),
    # In the engine's container, which then has no process for anything else.
    "fork bomb": Kind(BROKEN, _BRIEF),
    # systemd starts another after three minutes without a ping; what writes much waits that long.
    "journald frozen": Kind(BROKEN),
    "Docker restarted": Kind(BROKEN),
    "door killed": Kind(UNREACHABLE, head=True),
    "power cut": Kind(UNREACHABLE, (1.0, 20.0)),
    "reboot": Kind(UNREACHABLE),
    "cable cut": Kind(BROKEN, _LONG, topologies=GROUPS),
    "twin cut": Kind(BROKEN, _LONG, topologies=GROUPS),
    "MTU 1500": Kind(BROKEN, _LONG, topologies=GROUPS),
    "LAN loses frames": Kind(UNREACHABLE, _BRIEF),
    "LAN slow": Kind(WHOLE, _BRIEF),
    "hub refuses": Kind(acts=_RUNS),
    "hub breaks off": Kind(acts=_FETCHES),
    "hub slow": Kind(seconds=_BRIEF, acts=_FETCHES),
    "hub forbids": Kind(seconds=_BRIEF, acts=_FETCHES),
    # Without room Docker cannot make a container: what was stopped may not start again.
    "disk full": Kind(BROKEN, _LONG, alone=True, heals=False),
    "clock moved": Kind(),
    "run killed": Kind(acts=_RUNS),
    "job killed": Kind(acts=_FETCHES | {"build"}),
    "switch killed": Kind(REFUSED, acts=_SWITCHES),
}


@dataclass(frozen=True)
class Strike:
    """One fault, `after` seconds from the moment or the strike before; `variant` is 0 to 999."""

    fault: str
    spark: int
    after: float
    seconds: float
    variant: int

    def __str__(self) -> str:
        lasts = f" for {self.seconds} s" if self.seconds else ""
        return f"{self.after} s later {self.fault} ({self.variant}) on spark{self.spark + 1}{lasts}"


@dataclass(frozen=True)
class Scene:
    """An act, one or two faults from one of its moments on, and the seconds of a switch's trial."""

    act: str
    moment: str
    strikes: tuple[Strike, ...]
    trial: int
    variant: int

    def __str__(self) -> str:
        when = f"at {self.moment!r}" if self.moment else "from its beginning"
        return f"{self.act} ({self.variant}): {when}, {', '.join(map(str, self.strikes))}"


@dataclass(frozen=True)
class Round:
    """A row of scenes; `clients` ask each door all along; `standbys` wait beside all engines."""

    seed: int
    number: int
    topology: Topology
    clients: int
    standbys: bool
    scenes: tuple[Scene, ...]

    def __str__(self) -> str:
        standbys = "standbys, " if self.standbys else ""
        where = f"round {self.number} of seed {self.seed}: {self.topology}"
        head = f"{where}, {standbys}{self.clients} clients"
        return "\n".join([head, *(f"  {number}. {s}" for number, s in enumerate(self.scenes, 1))])


def draw(seed: int, number: int) -> Round:
    chance = random.Random(f"{seed}:{number}")
    (topology,) = chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))
    scenes = [_scene(chance, topology, "deploy")]
    while len(scenes) < _SCENES:
        acts = set(ACTS) - {"deploy"}
        if not _has_way_back([scene.act for scene in scenes]):
            acts.remove("rollback")
        choice = sorted(name for name in acts if topology in ACTS[name].topologies)
        scenes.append(_scene(chance, topology, chance.choice(choice)))
    # Of a row of its own: seeds that are known keep their scenes.
    standbys = random.Random(f"{seed}:{number}:standbys").random() < _STANDBYS
    return Round(seed, number, topology, chance.randint(1, 3), standbys, tuple(scenes))


def _has_way_back(acts: Sequence[str]) -> bool:
    """Tell whether another release has served, whose image is there still.

    A Spark that has lost everything gets back what is declared, and of built images no other.
    """
    return any(ACTS[act].switches for act in acts) and not {"build", "restore"} <= set(acts)


def _scene(chance: random.Random, topology: Topology, act: str) -> Scene:
    kinds = [
        name for name, kind in FAULTS.items() if topology in kind.topologies and act in kind.acts
    ]
    # None twice: an hour has five starts of an engine, and one loss of power on each Spark.
    faults = chance.sample(kinds, 2 if chance.random() < _TWO_FAULTS else 1)
    faults = [fault for fault in faults if FAULTS[fault].alone][:1] or faults
    strikes = tuple(_strike(chance, topology, fault) for fault in faults)
    moment = chance.choice(("", *ACTS[act].moments))
    return Scene(act, moment, strikes, chance.choice((2, 5, 15)), chance.randrange(1000))


def _strike(chance: random.Random, topology: Topology, fault: str) -> Strike:
    kind = FAULTS[fault]
    # Most of what happens is over within a second or two; some takes its time.
    after = round(chance.uniform(0, chance.choice((1.5, 8))), 1)
    sparks = 1 if kind.head and topology in GROUPS else SPARKS[topology]
    seconds = round(chance.uniform(*kind.seconds), 1)
    return Strike(fault, chance.randrange(sparks), after, seconds, chance.randrange(1000))
