"""Before any change: is this Spark fit for what it is to serve?"""

from pyinfra import host
from pyinfra.api import deploy

from deploys.operations.preflight import preflight
from deploys.plan.build import DISK
from deploys.plan.lock import image_key
from deploys.plan.memory import load_of
from deploys.plan.preflight import GIB, Requirements
from deploys.steps.context import hardware, lock, peer, release


@deploy("Preflight")
def apply() -> None:
    """Judge the Spark; list every error and warning with its remedy."""
    served, other = release(), peer()
    checkpoints = served.recipe.checkpoints.values() if served else ()
    locked = [lock().checkpoint(checkpoint) for checkpoint in checkpoints]
    preflight(
        name="Fit to serve",
        wanted=Requirements(
            hardware=hardware(),
            driver_minimum=host.data.driver_minimum,
            docker_minimum=host.data.docker_minimum,
            weights=sum(checkpoint.size for checkpoint in locked if checkpoint),
            image=lock().images[image_key(served.recipe)].size if served else 0,
            disk_headroom=int(host.data.disk_headroom_gib * GIB),
            ports=(host.data.port, served.port) if served and host.data.rank == 0 else (),
            clock_tolerance=host.data.clock_tolerance,
            build=DISK if served and served.recipe.build and host.data.rank == 0 else 0,
            pair=other is not None,
        ),
        root=host.data.root,
        images=served.images if served else (),
        folders=list(served.folders.values()) if served else [],
        worker=other if host.data.rank == 0 else None,
        load=load_of(served.recipe, lock(), 2 if other else 1) if served else None,
    )
