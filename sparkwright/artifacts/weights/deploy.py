"""The deploys of weights: the Hub's token, and the checkpoints that a Spark should serve."""

from collections.abc import Iterator
from typing import Any

from pyinfra.api import HiddenValue, deploy

from sparkwright.artifacts.weights.operations import ask_folders, weights
from sparkwright.common.files import ManagedFile
from sparkwright.common.part import Ask
from sparkwright.common.paths import HOST_FILES
from sparkwright.common.ports import IMAGE_PORT, SHARE_PORT
from sparkwright.common.render import unit_file
from sparkwright.declared.fleet.fabric_plan import FabricPlan
from sparkwright.machine.host.operations.files import hub_token
from sparkwright.machine.host.operations.services import service
from sparkwright.plan.release.lock import checkpoint_key
from sparkwright.plan.release.programs import program_files
from sparkwright.plan.release.release import Release
from sparkwright.run.target import Target, seats, target

_FILES = HOST_FILES / "network" / "fabric"


def reads(own: Target) -> Iterator[Ask[Any]]:
    """Yield what these steps ask of a Spark."""
    for seat in own.seats:
        if served := seat.release:
            names = [served.folders[name] for name in served.recipe.checkpoints]
            yield ask_folders(served.root, names)


@deploy("Weights")
def apply() -> None:
    """Have each checkpoint in its folder; `--data weights=verify` hashes every file anew.

    The head of a replica fetches them from the hub, or has them sent from a bundle; the worker of a
    pair copies them from its head over the fabric.
    """
    for own in seats():
        if own.release:
            _weights(own, own.release)


def _weights(own: Target, served: Release) -> None:
    plan, head = own.fabric, own.is_head
    verify, elsewhere = own.options.weights == "verify", own.settings.model_folders
    checkpoints = {
        served.folders[name]: own.lock.checkpoints[checkpoint_key(checkpoint)]
        for name, checkpoint in served.recipe.checkpoints.items()
    }
    if head:
        weights(
            name="Checkpoints",
            root=served.root,
            checkpoints=checkpoints,
            verify=verify,
            endpoint=own.settings.hf_endpoint,
            bundle=own.bundle,
            elsewhere=elsewhere,
        )
    if plan is None:
        return
    if head:
        service(
            name="Share on the fabric",
            unit="fabric-share.socket",
            entries=[*program_files(served.root), *share_units(served.root, plan)],
        )
    # On both: an operation of the worker alone would not wait for the head's.
    weights(
        name="Checkpoints from the head",
        root=served.root,
        checkpoints={} if head else checkpoints,
        verify=verify,
        share=f"http://{plan.peer_addresses[0]}:{SHARE_PORT}",
        elsewhere=elsewhere,
    )


def share_units(root: str, plan: FabricPlan) -> list[ManagedFile]:
    """Return the units by which a head offers weights, and an image, to its worker."""
    values = {
        "root": root,
        "address": plan.addresses[0],
        "port": SHARE_PORT,
        "image_port": IMAGE_PORT,
        "clients": " ".join(plan.peer_addresses),
    }
    paths = sorted((*_FILES.glob("fabric-share.*"), *_FILES.glob("fabric-image*")))
    return [unit_file(path, **values) for path in paths]


@deploy("Hugging Face auth")
def authenticate() -> None:
    """Have the token of HF_TOKEN, or of this machine's login, on the Spark and proved there."""
    own = target()
    if own.bundle:
        # Nobody asks a hub.
        return
    token = own.hub_token
    hub_token(name="Token", token=HiddenValue(token) if token else None)
