"""Room on the disk: what nobody goes back to."""

from pyinfra.api import deploy

from deploys.operations.clean import clean
from deploys.target import target


@deploy("Clean")
def apply() -> None:
    """Keep what serves, what the inventory asks for, and `keep_releases` of those before."""
    own = target()
    served = own.release
    clean(
        name="Releases, images and weights",
        root=own.root,
        keep=own.settings.keep_releases,
        wanted=served.id if served else None,
        folders=list(served.folders.values()) if served else [],
        images=served.images if served else (),
    )
