"""Leaving: what we put on a Spark goes, and the Spark is as it was."""

from pyinfra.api import deploy

from deploys.operations.remove import (
    announced,
    closed,
    files_removed,
    images_removed,
    packages_removed,
    parted,
    settings_restored,
    stopped,
)
from deploys.target import target


@deploy("Remove")
def apply() -> None:
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
