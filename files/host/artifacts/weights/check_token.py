"""check-token: ask the hub whose token is in the file HF_TOKEN_PATH, at HF_ENDPOINT.

Exit status: 0 it is somebody's (the name is printed), 1 it is nobody's or nobody could tell.
"""

import json
import sys
import time

from httpx2 import HTTPError, InvalidURL
from huggingface_hub import constants, get_session, get_token
from huggingface_hub.utils import build_hf_headers

from host.common.command_line import words

# Seconds before each try of a hub, which may be busy or out of reach.
DELAYS = (0, 1, 2, 4, 8)
# Bytes of an answer, and characters of a name: a hub's own is a tenth of each.
LARGEST, LONGEST = 64 * 1024, 100


def main() -> str:
    """Return the name of the account, or end with a sentence that tells what to do."""
    hub, reason = constants.ENDPOINT, ""
    for delay in DELAYS:
        time.sleep(delay)
        try:
            status, text = ask(f"{hub}/api/whoami-v2")
        except (HTTPError, InvalidURL) as error:
            reason = f"{hub} cannot be reached from this Spark: {type(error).__name__}."
            continue
        if status in (401, 403):
            sys.exit(
                f"{hub} refuses the Hugging Face token ({status}): it is "
                f"wrong, revoked or expired. Make another at {hub}/settings/tokens and give it as "
                "HF_TOKEN or with `hf auth login`; with none at all, downloads are anonymous."
            )
        reason = f"{hub} cannot say whose token it is (status {status})."
        if status == 200:
            return name(text) or sys.exit(reason)
        if status != 429 and status < 500:
            break
    sys.exit(reason)


def ask(url: str) -> tuple[int, bytes]:
    """Return a hub's status and answer, no more of it than it can be; none of a refusal."""
    headers = {**build_hf_headers(token=True), "Accept-Encoding": "identity"}
    text = b""
    with get_session().stream("GET", url, headers=headers, timeout=10) as answer:
        for part in answer.iter_raw() if answer.status_code == 200 else ():
            text += part
            if len(text) > LARGEST:
                break
        return answer.status_code, text


def name(text: bytes) -> str:
    """Return the name that an answer tells, "" where it tells none that can be printed."""
    try:
        told = str(json.loads(text)["name"])[:LONGEST]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return told if told.isprintable() else ""


def command() -> None:
    """Prints the name of the account."""
    words(__doc__)
    assert get_token(), "no token in HF_TOKEN_PATH"
    print(main())
