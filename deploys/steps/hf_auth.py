"""The account of a Spark at the hub: the token of the machine that runs pyinfra."""

from pyinfra.api import HiddenValue, deploy

from deploys.operations import secrets
from deploys.plan.token import NONE
from deploys.target import target


@deploy("Hugging Face auth")
def apply() -> None:
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
