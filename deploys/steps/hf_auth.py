"""Who a Spark is at the hub: the token of the machine that runs pyinfra."""

from huggingface_hub import get_token
from pyinfra import host
from pyinfra.api import HiddenValue, deploy

from deploys.operations.secrets import hub_token


@deploy("Hugging Face auth")
def apply() -> None:
    """Have the token of HF_TOKEN, or of this machine's login, on the Spark and proved there."""
    token = get_token()
    hub_token(
        name="Token",
        root=host.data.root,
        endpoint=host.data.hf_endpoint,
        token=HiddenValue(token) if token else None,
    )
