"""check-token: ask the hub whose token is in the file HF_TOKEN_PATH, at HF_ENDPOINT.

Exit status: 0 it is somebody's (the name is printed), 1 it is nobody's or nobody could tell.
"""

import sys

from httpx2 import TransportError
from huggingface_hub import constants, get_token
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status, http_backoff


def main() -> str:
    """Return the name of the account, or end with a sentence that tells what to do."""
    hub = constants.ENDPOINT
    try:
        answer = http_backoff("GET", f"{hub}/api/whoami-v2", headers=build_hf_headers(token=True))
        hf_raise_for_status(answer)
    except HfHubHTTPError as error:
        if error.response.status_code in (401, 403):
            sys.exit(
                f"{hub} refuses the Hugging Face token ({error.response.status_code}): it is "
                f"wrong, revoked or expired. Make another at {hub}/settings/tokens and give it as "
                "HF_TOKEN or with `hf auth login`; with none at all, downloads are anonymous."
            )
        sys.exit(f"{hub} cannot say whose token it is (status {error.response.status_code}).")
    except TransportError as error:
        sys.exit(f"{hub} cannot be reached from this Spark: {type(error).__name__}.")
    return str(answer.json()["name"])


if __name__ == "__main__":
    assert get_token(), "no token in HF_TOKEN_PATH"
    print(main())
