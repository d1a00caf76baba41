"""What a Hugging Face token may look like."""

import re


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
