"""A client of what the lab serves: it asks on the LAN, through the door, with the fleet's key."""

from typing import Any

import requests

from deploys.keys import api_keys
from tests.lab.spark import Handle
from tests.lab.state import FLEET

PORT = 8000
CHAT = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "Hi"}],
    "max_tokens": 8,
    # Its thoughts would take all tokens, and leave no answer.
    "chat_template_kwargs": {"enable_thinking": False},
}


def ask(
    spark: Handle, body: dict[str, Any] | None = None, timeout: float = 60
) -> requests.Response:
    """Return the answer to a chat request, whatever it is.

    Raises:
        requests.RequestException: none comes.
    """
    return requests.post(
        f"http://{spark.address}:{PORT}/v1/chat/completions",
        json=body or CHAT,
        headers={"Authorization": f"Bearer {api_keys(FLEET)[0]}"},
        timeout=timeout,
    )


def said(spark: Handle, body: dict[str, Any] | None = None, timeout: float = 60) -> str | None:
    """Return the text that a chat request gets; None when it gets no good answer in time."""
    try:
        answer = ask(spark, body, timeout)
    except requests.RequestException:
        return None
    if not answer.ok:
        return None
    content: str = answer.json()["choices"][0]["message"]["content"]
    return content
