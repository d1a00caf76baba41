"""The account of a Spark at the hub: the token of the machine that runs pyinfra."""

from pyinfra import host
from pyinfra.api import HiddenValue, deploy

from deploys.operations import secrets
from deploys.plan.token import NONE
from deploys.steps.context import hub_token


@deploy("Hugging Face auth")
def apply() -> None:
    """Have the token of HF_TOKEN, or of this machine's login, on the Spark and proved there."""
    token = hub_token()
    secrets.hub_token(
        name="Token",
        root=host.data.root,
        endpoint=host.data.hf_endpoint,
        token=HiddenValue(token) if token else None,
        keep=host.data.hf_token != NONE,
    )
