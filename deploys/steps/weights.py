"""The checkpoints of the release that a Spark should serve."""

from pathlib import Path

from pyinfra.api import deploy

from deploys.operations.services import service
from deploys.operations.weights import copied_weights, weights
from deploys.plan.fabric import FabricPlan
from deploys.plan.files import ManagedFile
from deploys.plan.lock import checkpoint_key
from deploys.plan.share import share_units, share_url
from deploys.target import target

_FILES = Path(__file__).parents[2] / "files" / "share"


@deploy("Weights")
def apply() -> None:
    """Have each checkpoint in its folder; `--data weights=verify` hashes every file anew.

    The head of a pair fetches them from the hub, and lends them to its worker over the fabric.
    """
    own = target()
    served = own.release
    if served is None:
        return
    plan, head, verify = own.fabric, own.is_head, own.options.weights == "verify"
    checkpoints = {
        served.folders[name]: own.lock.checkpoints[checkpoint_key(checkpoint)]
        for name, checkpoint in served.recipe.checkpoints.items()
    }
    if head:
        weights(
            name="Checkpoints",
            root=served.root,
            endpoint=own.settings.hf_endpoint,
            checkpoints=checkpoints,
            verify=verify,
        )
    if plan is None:
        return
    if head:
        _share(served.root, plan)
    # On both: an operation of the worker alone would not wait for the head's.
    copied_weights(
        name="Checkpoints from the head",
        root=served.root,
        share=share_url(plan.peer_addresses[0]),
        checkpoints={} if head else checkpoints,
        verify=verify,
    )


def _share(root: str, plan: FabricPlan) -> None:
    service(
        name="Share on the fabric",
        unit="fabric-share.socket",
        entries=[
            ManagedFile(f"{root}/bin/share.py", (_FILES / "share.py").read_text()),
            *share_units(root, plan),
        ],
    )
