"""The deploys of weights: the Hub's token, and the checkpoints that a Spark should serve."""

from pyinfra.api import HiddenValue, deploy

from sparkwright.fabric.share import share_units, share_url
from sparkwright.fleet.fabric_plan import FabricPlan
from sparkwright.host.operations import secrets
from sparkwright.host.operations.services import service
from sparkwright.release.lock import checkpoint_key
from sparkwright.release.programs import program_files
from sparkwright.release.token import NONE
from sparkwright.run.target import target
from sparkwright.weights.operations import copied_weights, weights


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
            *program_files(root),
            *share_units(root, plan),
        ],
    )


@deploy("Hugging Face auth")
def authenticate() -> None:
    """Have the token of HF_TOKEN, or of this machine's login, on the Spark and proved there."""
    own = target()
    token = own.hub_token
    secrets.hub_token(
        name="Token",
        root=own.root,
        endpoint=own.settings.hf_endpoint,
        token=HiddenValue(token) if token else None,
        keep=own.settings.hf_token != NONE,
    )
