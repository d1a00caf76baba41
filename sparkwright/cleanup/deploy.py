"""The deploys that delete: what no rollback needs, or all of Sparkwright."""

from pyinfra.api import deploy

from sparkwright.cleanup.operations import (
    announced,
    clean,
    closed,
    files_removed,
    images_removed,
    packages_removed,
    parted,
    settings_restored,
    stopped,
)
from sparkwright.run.target import target


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


@deploy("Remove")
def remove() -> None:
    """Show it, then take it away; checkpoints stay unless `--data weights=remove` is given."""
    own = target()
    root, log_options = own.root, own.settings.docker_log_options
    weights = own.options.weights == "remove"
    announced(
        name="What goes, and what stays",
        root=root,
        weights=weights,
        earlyoom=f'EARLYOOM_ARGS="{own.settings.earlyoom_arguments}"\n',
        log_options=log_options,
    )
    stopped(name="Units", root=root)
    closed(name="Firewall", root=root)
    parted(name="Fabric", root=root)
    settings_restored(name="Settings", root=root, log_options=log_options)
    images_removed(name="Images", root=root)
    packages_removed(name="Packages", root=root)
    files_removed(name="Files", root=root, weights=weights)
