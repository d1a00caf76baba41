"""The deploys of weights: the Hub's token, and the checkpoints that a Spark should serve."""

from pyinfra.api import HiddenValue, deploy

from sparkwright.fabric.share import lan_share_units, lan_share_url, share_units, share_url
from sparkwright.fleet.fabric_plan import FabricPlan
from sparkwright.host.operations import secrets
from sparkwright.host.operations.services import service
from sparkwright.release.lock import CheckpointLock, checkpoint_key
from sparkwright.release.programs import program_files
from sparkwright.release.release import Release
from sparkwright.release.token import NONE
from sparkwright.run.target import Target, seats, target
from sparkwright.weights.operations import copied_weights, weights


@deploy("Weights")
def apply() -> None:
    """Have each checkpoint in its folder; `--data weights=verify` hashes every file anew.

    The head of a replica fetches them from the hub, or has them sent from a bundle. It lends them
    over the fabric to the worker of its pair, and over the LAN to the heads of later replicas that
    serve the same ones.
    """
    # All that is fetched is there before anybody borrows it.
    for own in seats():
        if own.release:
            _fetch(own, own.release)
    for own in seats():
        if own.release:
            _pass_on(own, own.release)


def _checkpoints(own: Target, served: Release) -> dict[str, CheckpointLock]:
    return {
        served.folders[name]: own.lock.checkpoints[checkpoint_key(checkpoint)]
        for name, checkpoint in served.recipe.checkpoints.items()
    }


def _fetch(own: Target, served: Release) -> None:
    checkpoints, lenders = _checkpoints(own, served), _lenders(own, served)
    if own.is_head:
        weights(
            name="Checkpoints",
            root=served.root,
            endpoint=own.settings.hf_endpoint,
            checkpoints={each: checkpoints[each] for each in checkpoints if each not in lenders},
            verify=own.options.weights == "verify",
            bundle=own.bundle,
            elsewhere=own.settings.model_folders,
        )


def _pass_on(own: Target, served: Release) -> None:
    """Lend checkpoints, and copy those that others lend."""
    plan, head, verify = own.fabric, own.is_head, own.options.weights == "verify"
    checkpoints = _checkpoints(own, served)
    lending, lenders = own.lending, _lenders(own, served)
    if lending.lent and lending.address:
        folders = [own.lock.folder(checkpoint) for checkpoint in lending.lent]
        service(
            name="Share on the LAN",
            unit="lan-share.socket",
            entries=[
                *program_files(served.root),
                *lan_share_units(served.root, lending.address, lending.clients, folders),
            ],
        )
    if lending.takes_part:
        # On lenders too: it begins when they have finished what is above.
        weights(
            name="Checkpoints from other replicas",
            root=served.root,
            endpoint=own.settings.hf_endpoint,
            checkpoints={each: checkpoints[each] for each in lenders},
            verify=verify,
            lenders=lenders,
            bundle=own.bundle,
            elsewhere=own.settings.model_folders,
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
        elsewhere=own.settings.model_folders,
    )


def _lenders(own: Target, served: Release) -> dict[str, str]:
    """Return the URLs of what other replicas lend to a Spark, by its own folders."""
    urls = {}
    for name, checkpoint in served.recipe.checkpoints.items():
        if loan := own.lending.borrowed.get(checkpoint_key(checkpoint)):
            theirs = own.lock.folder(loan.checkpoint)
            urls[served.folders[name]] = f"{lan_share_url(loan.address)}/weights/{theirs}"
    return urls


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
    if own.bundle:
        # Nobody asks a hub.
        return
    token = own.hub_token
    secrets.hub_token(
        name="Token",
        root=own.root,
        endpoint=own.settings.hf_endpoint,
        token=HiddenValue(token) if token else None,
        keep=own.settings.hf_token != NONE,
        variables=own.settings.proxy_variables,
    )
