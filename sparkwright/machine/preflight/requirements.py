"""What a Spark is to serve, what that requires, and the summary of a plan in a person's words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sparkwright.common.errors import Finding
from sparkwright.common.hardware import GIB, Hardware
from sparkwright.common.progress import size_text
from sparkwright.declared.fleet.settings import Settings
from sparkwright.declared.recipe.trust import needs
from sparkwright.machine.host.survey import Survey
from sparkwright.plan.memory.plan import LEAST, Load, MemoryPlan
from sparkwright.plan.release.release import Release


@dataclass(frozen=True)
class Requirements:
    """What one replica requires of a Spark; sizes are in bytes.

    Attributes:
        release, load: what it is to serve, and must fit into its memory; None on an idle Spark.
        head: the Spark from which this one, a worker, gets weights and image; None for a head.
        image: compressed, the engine's image or the one that it is built on.
        build: more for building the image; 0 where it is not built.
        ports: of its door; a worker has none.
        group: whether several Sparks serve the model: a worker gets the image from the head.
        doubts: warnings about its recipe.
        folders: the checkpoint folders, under the root or anywhere, that count as fetched already.
        place: the folder of the seat.
        on_demand: requests start it.
        yields: another one may have its place.
    """

    hardware: Hardware
    settings: Settings
    release: Release | None = None
    load: Load | None = None
    replica: str | None = None
    head: str | None = None
    weights: int = 0
    image: int = 0
    build: int = 0
    ports: tuple[int, ...] = ()
    group: bool = False
    doubts: Sequence[Finding] = ()
    folders: Sequence[str] = ()
    place: str = ""
    on_demand: bool = False
    yields: bool = False


def summary(
    release: Release, survey: Survey, wanted: Requirements, plan: MemoryPlan | None
) -> Iterator[str]:
    """Yield the lines of one Spark."""
    recipe, head = release.recipe, wanted.head
    place = f"the head is {head}" if head else f"on port {wanted.ports[0]}"
    yield f"{wanted.replica}: {recipe.name} as {', '.join(recipe.models)}, {place}"
    hold = wanted.settings.hold(recipe.start_timeout)
    now = "requests start it" if wanted.on_demand else _now(release.id, hold, survey, plan)
    yield f"  release {release.id}; {now}"
    image = 0 if survey.image else wanted.image
    sizes = {"weights": max(0, wanted.weights - survey.weights), "image": image}
    missing = [f"{size_text(size)} of {what}" for what, size in sizes.items() if size]
    source = f"to copy from {head}" if head else "to download"
    free = f"{size_text(min(survey.root_free, survey.docker_free))} free"
    yield f"  {source}: {', '.join(missing) or 'nothing'}; {free}"
    if not survey.image and not head:
        yield from (f"  {line}" for need in needs(recipe) for line in need.details)
    if plan:
        used = plan.total - plan.head_room
        yield (
            f"  memory: {used / GIB:.0f} of {plan.total / GIB:.0f} GiB; "
            f"{plan.concurrency:.1f} requests of {plan.context:,} tokens at once"
        )


def _now(release: str, hold: int, survey: Survey, plan: MemoryPlan | None) -> str:
    """Say what serves now, and what clients see of the switch."""
    if survey.serves is None:
        return "nothing serves now"
    if survey.serves == release:
        return "it is the one that serves now"
    beside = plan and plan.sparks == 1 and plan.unified
    if plan and beside and plan.engine + LEAST[1] * GIB <= survey.available:
        return f"{survey.serves} serves until this one does"
    held = f"the door holds requests for up to {hold} s" if hold else "requests fail"
    return f"{survey.serves} serves now and ends first: {held} meanwhile"
