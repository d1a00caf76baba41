"""The Hugging Face token: what it may look like, and which hub gets it."""

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

from sparkwright.common.errors import PlanError

# What the setting `hf_token` may say: group_data/all.py tells what each means.
HTTPS, HTTP, NONE = "https", "http", "none"


def token_for(endpoint: str, token: str | None, setting: str = HTTPS) -> str | None:
    """Return the token that a hub is asked with; None for an anonymous question.

    Args:
        endpoint: URL of the hub.
        token: that of the machine that runs pyinfra; None without one.
        setting: `hf_token` of the settings.

    Raises:
        PlanError: the hub would get the token in the clear.
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
    """Return why a text cannot be a token, as a sentence that does not show it; None if it can.

    It will stand in an HTTP header and in a file of one line: printable ASCII without spaces.
    """
    if not re.fullmatch(r"[!-~]+", token):
        return (
            "The Hugging Face token (HF_TOKEN, or the login of this machine) has spaces or "
            "control characters in it: copy it again from the hub's settings."
        )
    return None


def _is_private(endpoint: str) -> bool:
    """Tell whether nobody on the way reads what is sent: by TLS, or as it leaves no machine."""
    url = urlsplit(endpoint)
    if url.scheme == "https" or url.hostname == "localhost":
        return True
    try:
        return ip_address(url.hostname or "").is_loopback
    except ValueError:
        return False
