"""The checkpoints of the release that a Spark should serve."""

from pyinfra import host
from pyinfra.api import deploy

from deploys.operations.weights import weights
from deploys.plan.lock import checkpoint_key
from deploys.steps.context import lock, release


@deploy("Weights")
def apply() -> None:
    """Have each checkpoint in its folder; `--data weights=verify` hashes every file anew."""
    served = release()
    if served is None:
        return
    locked = lock().checkpoints
    weights(
        name="Checkpoints",
        root=served.root,
        endpoint=host.data.hf_endpoint,
        checkpoints={
            checkpoint.folder: locked[checkpoint_key(checkpoint)]
            for checkpoint in served.recipe.checkpoints.values()
        },
        verify=host.data.get("weights") == "verify",
    )
