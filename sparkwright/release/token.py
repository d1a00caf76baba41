"""The Hugging Face token: its format, and the hubs that may get it."""

import os
import re
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from huggingface_hub import constants

from sparkwright.common.errors import PlanError

# The values of the setting `hf_token`, explained in group_data/all.py.
HTTPS, HTTP, NONE = "https", "http", "none"
# Where huggingface_hub finds a token besides its file, the first first.
_VARIABLES = ("HF_OIDC_RESOURCE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")


def own_token() -> str | None:
    """Return the Hugging Face token of this machine, as huggingface_hub finds it; None without one.

    What finds it there takes 50 ms to import: it is left out where HF_TOKEN alone decides, and
    where there is none.
    """
    first = next((name for name in _VARIABLES if os.environ.get(name)), None)
    if first == "HF_TOKEN" and token_problem(token := os.environ[first]) is None:
        return token
    if first is None and not Path(constants.HF_TOKEN_PATH).exists():
        return None
    from huggingface_hub import get_token

    return get_token()


@dataclass(frozen=True)
class Hub:
    """The hub that a command asks.

    Attributes:
        endpoint: Its URL; None = ``HF_ENDPOINT`` or the public one.
        setting: Which hub gets this machine's token, as in the group data.
    """

    endpoint: str | None = None
    setting: str = HTTPS

    def token(self) -> str | None:
        """Return the token for it; None for anonymous requests.

        Raises:
            PlanError: As `token_for`.
        """
        return token_for(self.endpoint or constants.ENDPOINT, own_token(), self.setting)


def token_for(endpoint: str, token: str | None, setting: str = HTTPS) -> str | None:
    """Return the token for requests to a hub; None for anonymous ones.

    Args:
        token: that of the machine that runs pyinfra; None without one.
        setting: `hf_token` of the settings.

    Raises:
        PlanError: the token would be sent unencrypted.
    """
    if setting == NONE or not token:
        return None
    if setting == HTTPS and not _is_private(endpoint):
        raise PlanError(
            f"hf_endpoint: found {endpoint}, which would receive the Hugging Face token "
            f"unencrypted; expected https. Set hf_token = {NONE!r} in the group data (or "
            f"--hf-token) to use no token, or {HTTP!r} for a mirror in an isolated network"
        )
    return token


def token_problem(token: str) -> str | None:
    """Return why a text cannot be a token, without showing it; None if it can.

    For an HTTP header and a file of one line it must be printable ASCII without spaces.
    """
    if not re.fullmatch(r"[!-~]+", token):
        return (
            "The Hugging Face token (HF_TOKEN, or the login of this machine) has spaces or "
            "control characters in it: copy it again from the hub's settings."
        )
    return None


def _is_private(endpoint: str) -> bool:
    """Tell whether requests cannot be read on the way: by TLS, or as they stay on this machine."""
    url = urlsplit(endpoint)
    if url.scheme == "https" or url.hostname == "localhost":
        return True
    try:
        return ip_address(url.hostname or "").is_loopback
    except ValueError:
        return False
