"""The Hugging Face token: its format, and the hubs that may get it."""

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

from sparkwright.common.errors import PlanError

# The values of the setting `hf_token`, explained in group_data/all.py.
HTTPS, HTTP, NONE = "https", "http", "none"


def token_for(endpoint: str, token: str | None, setting: str = HTTPS) -> str | None:
    """Return the token for requests to a hub; None for anonymous ones.

    Args:
        endpoint: URL of the hub.
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
