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


@dataclass(frozen=True)
class Hub:
    """The hub that is asked, the usual one by default, and the setting `hf_token`."""

    endpoint: str | None = None
    setting: str = HTTPS

    def token(self) -> str | None:
        """Return this machine's token for requests to it; None for anonymous ones.

        Raises PlanError rather than send it unencrypted.
        """
        token = None if self.setting == NONE else own_token()
        endpoint = self.endpoint or constants.ENDPOINT
        if token and self.setting == HTTPS and not _is_private(endpoint):
            raise PlanError(
                f"hf_endpoint: found {endpoint}, which would receive the Hugging Face token "
                f"unencrypted; expected https. Set hf_token = {NONE!r} in the group data (or "
                f"--hf-token) to use no token, or {HTTP!r} for a mirror in an isolated network"
            )
        return token


def own_token() -> str | None:
    """Return the Hugging Face token of this machine, as huggingface_hub finds it; None without one.

    The library takes 50 ms to import: it is left out where HF_TOKEN alone decides, or there is no
    token at all.
    """
    first = next((name for name in _VARIABLES if os.environ.get(name)), None)
    if first in _VARIABLES[1:] and (token := os.environ[first].strip()):
        return _checked(token, first)
    if first is None and not Path(constants.HF_TOKEN_PATH).exists():
        return None
    from huggingface_hub import get_token

    return _checked(get_token() or "", constants.HF_TOKEN_PATH)


def _checked(token: str, source: str) -> str | None:
    """Return a token that fits into an HTTP header and a file of one line; None if it is empty."""
    if re.fullmatch(r"[!-~]*", token):
        return token or None
    found = "spaces or control characters" if token.isascii() else "a letter that no token has"
    raise PlanError(
        f"{source}: found a Hugging Face token with {found} in it; expected one as the hub's "
        "settings show it: copy it again"
    )


def _is_private(endpoint: str) -> bool:
    """Tell whether requests cannot be read on the way: by TLS, or as they stay on this machine."""
    url = urlsplit(endpoint)
    try:
        is_own = url.hostname == "localhost" or ip_address(url.hostname or "").is_loopback
    except ValueError:
        is_own = False
    return is_own or url.scheme == "https"
