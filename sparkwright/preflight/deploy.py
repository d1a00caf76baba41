"""The preflight: is this Spark fit for what it is to serve?"""

from pyinfra.api import deploy

from sparkwright.common.errors import Finding
from sparkwright.common.hardware import GIB
from sparkwright.memory.plan import Load, load_of
from sparkwright.preflight.operations import Needs, preflight
from sparkwright.preflight.preflight import Requirements
from sparkwright.preflight.summary import Intent
from sparkwright.recipe.build import disk
from sparkwright.recipe.rules import doubts
from sparkwright.recipe.trust import needs
from sparkwright.release.lock import image_key, places
from sparkwright.run.spark import fleet_of
from sparkwright.run.target import Target, target


@deploy("Preflight")
def apply() -> None:
    """Judge the Spark; list every error and warning with its remedy."""
    own, *others = target().seats
    needs = _needs(own)
    preflight(
        name="Fit to serve",
        wanted=needs.wanted,
        root=own.root,
        images=needs.images,
        folders=needs.folders,
        worker=own.peer if own.is_head else None,
        load=needs.load,
        intent=needs.intent,
        beside=_needs(others[0]) if others else None,
        place=needs.place,
    )


def _needs(own: Target) -> Needs:
    """Return what a seat of the current Spark requires of it."""
    release, settings = own.release, own.settings
    checkpoints = [*release.recipe.checkpoints.values()] if release else []
    locked = [own.lock.checkpoint(checkpoint) for checkpoint in checkpoints]
    elsewhere = settings.model_folders
    return Needs(
        wanted=Requirements(
            hardware=own.hardware,
            driver_minimum=settings.driver_minimum,
            docker_minimum=settings.docker_minimum,
            weights=sum(checkpoint.size for checkpoint in locked if checkpoint),
            image=own.lock.images[image_key(release.recipe)].size if release else 0,
            disk_headroom=int(settings.disk_headroom_gib * GIB),
            ports=(own.port,) if release and own.is_head and own.port else (),
            clock_tolerance=settings.clock_tolerance,
            build=disk(release.recipe.build) if release and own.is_head else 0,
            pair=own.peer is not None,
            doubts=doubts_of(own),
        ),
        images=release.images if release else (),
        folders=[
            *(release.folders.values() if release else ()),
            *(path for each in checkpoints for path in places(each.repo, each.folder, elsewhere)),
        ],
        load=_load(own),
        place=own.place,
        intent=Intent(
            replica=own.replica or "",
            recipe=release.recipe.name,
            release=release.id,
            port=own.port,
            names=tuple(release.recipe.models),
            head=None if own.is_head else own.ranks[0],
            details=tuple(line for need in needs(release.recipe) for line in need.details),
            hold=settings.hold(release.recipe.start_timeout),
        )
        if release
        else None,
    )


def doubts_of(own: Target) -> tuple[Finding, ...]:
    """Return the warnings about the recipe that the owner has not ended by a word."""
    if own.release is None or own.replica is None or not own.is_head:
        return ()
    trusted = fleet_of(own.fleet).replicas[own.replica].trusts
    return tuple(doubts(own.release.recipe, trusted))


def _load(own: Target) -> Load | None:
    """Return the load of a seat; where the release has sizes by the plan, that of the recipe."""
    if own.recipe is None or own.release is None:
        return None
    recipe = own.recipe.for_sparks(1) if own.replicas else own.release.recipe
    return load_of(recipe, own.lock, len(own.ranks))
