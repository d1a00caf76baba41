"""The deploys that delete: what no rollback needs, or all of Sparkwright."""

from pyinfra.api import deploy

from sparkwright.cleanup.operations import (
    announce_removal,
    clean,
    close_firewall,
    remove_fabric,
    remove_files,
    remove_images,
    remove_packages,
    restore_settings,
    stop_units,
)
from sparkwright.run.target import target


@deploy("Clean")
def apply() -> None:
    """Keep what serves, what the inventory asks for, and `keep_releases` of those before."""
    own = target()
    served = [release for each in own.seats if (release := each.release)]
    clean(
        name="Releases, images and weights",
        root=own.root,
        keep=own.settings.keep_releases,
        wanted=[each.id for each in served],
        folders=[folder for each in served for folder in each.folders.values()],
        images=[image for each in served for image in each.images],
    )


@deploy("Remove")
def remove() -> None:
    """Show it, then take it away; checkpoints stay unless `--data weights=remove` is given."""
    own = target()
    root, log_options = own.root, own.settings.docker_log_options
    weights = own.options.weights == "remove"
    announce_removal(
        name="What goes, and what stays",
        root=root,
        weights=weights,
        earlyoom=f'EARLYOOM_ARGS="{own.settings.earlyoom_arguments}"\n',
        log_options=log_options,
    )
    stop_units(name="Units", root=root)
    close_firewall(name="Firewall", root=root)
    remove_fabric(name="Fabric", root=root)
    restore_settings(name="Settings", root=root, log_options=log_options)
    remove_images(name="Images", root=root)
    remove_packages(name="Packages", root=root)
    remove_files(name="Files", root=root, weights=weights)
