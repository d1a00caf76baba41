"""Before any change: is this Spark fit for what it is to serve?"""

from pyinfra.api import deploy

from sparkwright.common.hardware import GIB
from sparkwright.memory.plan import load_of
from sparkwright.preflight.operations import preflight
from sparkwright.preflight.preflight import Requirements
from sparkwright.recipe.build import DISK
from sparkwright.release.lock import image_key
from sparkwright.run.target import target


@deploy("Preflight")
def apply() -> None:
    """Judge the Spark; list every error and warning with its remedy."""
    own = target()
    served, other, wanted = own.release, own.peer, own.settings
    checkpoints = served.recipe.checkpoints.values() if served else ()
    locked = [own.lock.checkpoint(checkpoint) for checkpoint in checkpoints]
    preflight(
        name="Fit to serve",
        wanted=Requirements(
            hardware=own.hardware,
            driver_minimum=wanted.driver_minimum,
            docker_minimum=wanted.docker_minimum,
            weights=sum(checkpoint.size for checkpoint in locked if checkpoint),
            image=own.lock.images[image_key(served.recipe)].size if served else 0,
            disk_headroom=int(wanted.disk_headroom_gib * GIB),
            ports=(own.port, served.port) if served and own.is_head and own.port else (),
            clock_tolerance=wanted.clock_tolerance,
            build=DISK if served and served.recipe.build and own.is_head else 0,
            pair=other is not None,
        ),
        root=own.root,
        images=served.images if served else (),
        folders=list(served.folders.values()) if served else [],
        worker=other if own.is_head else None,
        load=load_of(served.recipe, own.lock, len(own.ranks)) if served else None,
    )
