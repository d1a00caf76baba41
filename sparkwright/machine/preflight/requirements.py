"""What a Spark is to serve, what that requires, and the summary of a plan in a person's words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparkwright.common.errors import Finding
from sparkwright.common.hardware import GIB, Hardware
from sparkwright.common.progress import size_text
from sparkwright.machine.host.survey import Survey
from sparkwright.plan.memory.check import LEAST
from sparkwright.plan.memory.plan import Load, MemoryPlan


@dataclass(frozen=True)
class Intent:
    """The replica, recipe and release that a Spark is to serve, and the port of its door.

    Attributes:
        names: What clients ask for.
        head: The Spark from which this one, a worker, gets weights and image; None for a head.
        details: What the mods of its image do.
        hold: Seconds for which its door holds requests while no engine serves.
    """

    replica: str
    recipe: str
    release: str
    port: int | None
    names: tuple[str, ...]
    head: str | None = None
    details: tuple[str, ...] = ()
    hold: int = 0


@dataclass(frozen=True)
class Requirements:
    """What one replica requires of a Spark; sizes are in bytes.

    Attributes:
        image: compressed, the engine's image or the one that it is built on.
        disk_headroom: stays free for caches, logs and the next release.
        build: more for building the image; 0 where it is not built.
        pair: whether two Sparks serve the model: the worker gets the image from the head.
        doubts: warnings about its recipe.
        images: names and digests of the image that will run.
        folders: the checkpoint folders, under the root or anywhere, that count as fetched already.
        load, intent: what must fit into its memory, and what a plan shows; None on an idle Spark.
        place: the folder of the seat.
    """

    hardware: Hardware
    driver_minimum: int
    docker_minimum: int
    weights: int
    image: int
    disk_headroom: int
    ports: tuple[int, ...]
    clock_tolerance: int
    build: int = 0
    pair: bool = False
    doubts: Sequence[Finding] = ()
    images: Sequence[str] = ()
    folders: Sequence[str] = ()
    load: Load | None = None
    intent: Intent | None = None
    place: str = ""


def summary(
    intent: Intent, survey: Survey, wanted: Requirements, plan: MemoryPlan | None
) -> Iterator[str]:
    """Yield the lines of one Spark."""
    place = f"the head is {intent.head}" if intent.head else f"on port {intent.port}"
    yield f"{intent.replica}: {intent.recipe} as {', '.join(intent.names)}, {place}"
    yield f"  release {intent.release}; {_now(intent, survey, plan)}"
    missing = [
        f"{size_text(size)} of {what}"
        for what, size in (
            ("weights", max(0, wanted.weights - survey.weights)),
            ("image", 0 if survey.image else wanted.image),
        )
        if size
    ]
    source = f"to copy from {intent.head}" if intent.head else "to download"
    free = f"{size_text(min(survey.root_free, survey.docker_free))} free"
    yield f"  {source}: {', '.join(missing) or 'nothing'}; {free}"
    if not survey.image and not intent.head:
        yield from (f"  {line}" for line in intent.details)
    if plan:
        used = plan.total - plan.head_room
        yield (
            f"  memory: {used / GIB:.0f} of {plan.total / GIB:.0f} GiB; "
            f"{plan.concurrency:.1f} requests of {plan.context:,} tokens at once"
        )


def _now(intent: Intent, survey: Survey, plan: MemoryPlan | None) -> str:
    """Say what serves now, and what clients see of the switch."""
    if survey.serves is None:
        return "nothing serves now"
    if survey.serves == intent.release:
        return "it is the one that serves now"
    beside = plan and plan.sparks == 1 and plan.unified
    if plan and beside and plan.engine + LEAST[1] * GIB <= survey.available:
        return f"{survey.serves} serves until this one does"
    held = f"the door holds requests for up to {intent.hold} s" if intent.hold else "requests fail"
    return f"{survey.serves} serves now and ends first: {held} meanwhile"
