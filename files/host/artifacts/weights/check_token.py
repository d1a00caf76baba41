"""check-token: ask the hub whose token is in the file HF_TOKEN_PATH, at HF_ENDPOINT.

Exit status: 0 it is somebody's (the name is printed), 1 it is nobody's or nobody could tell.
"""

import sys
import time

from httpx2 import HTTPError, InvalidURL
from huggingface_hub import constants, get_token, whoami
from huggingface_hub.errors import HfHubHTTPError

from host.common.command_line import words

# Seconds before each try of a hub, which may be busy or out of reach.
DELAYS = (0, 1, 2, 4, 8)


def main() -> str:
    """Return the name of the account, or end with a sentence that tells what to do."""
    hub, reason = constants.ENDPOINT, ""
    for delay in DELAYS:
        time.sleep(delay)
        try:
            return ascii(whoami(get_token())["name"])[1:-1][:100]
        except HfHubHTTPError as error:
            status = error.response.status_code
            if status in (401, 403):
                sys.exit(
                    f"{hub} refuses the Hugging Face token ({status}): it is wrong, revoked or "
                    f"expired. Make another at {hub}/settings/tokens and give it as HF_TOKEN or "
                    "with `hf auth login`; with none at all, downloads are anonymous."
                )
            reason = f"{hub} cannot say whose token it is (status {status})."
            if status != 429 and status < 500:
                break
        except (HTTPError, InvalidURL) as error:
            reason = f"{hub} cannot be reached from this Spark: {type(error).__name__}."
        except (ValueError, KeyError, TypeError):
            sys.exit(f"{hub} cannot say whose token it is.")
    sys.exit(reason)


def command() -> None:
    """Prints the name of the account."""
    words(__doc__)
    assert get_token(), "no token in HF_TOKEN_PATH"
    print(main())
