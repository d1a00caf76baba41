"""Room on the disk: what nobody goes back to."""

from pyinfra import host
from pyinfra.api import deploy

from deploys.operations.clean import clean
from deploys.plan.switch import whole_number
from deploys.steps.context import bad_input, release


@deploy("Clean")
def apply() -> None:
    """Keep what serves, what the inventory asks for, and `keep_releases` of those before."""
    with bad_input():
        keep = whole_number(host.data.dict(), "keep_releases")
    served = release()
    clean(
        name="Releases, images and weights",
        root=host.data.root,
        keep=keep,
        wanted=served.id if served else None,
        folders=list(served.folders.values()) if served else [],
        images=served.images if served else (),
    )
