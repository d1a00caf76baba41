"""A client of what the lab serves: it asks on the LAN, through the door, with the fleet's key."""

from typing import Any

import requests

from sparkwright.door.keys import api_keys
from tests.clock import patience
from tests.lab.spark import Handle
from tests.lab.state import FLEET

PORT = 8000
# Greedy: a sampled first token may be the end, or begin a tool call, and there is no answer then.
# A random model often finds two tokens equally likely but for rounding, and one Spark rounds in
# another order than two. The answer to this question has no such tie among its first tokens.
CHAT = {
    "model": "tiny",
    "messages": [{"role": "user", "content": "Say hello."}],
    "max_tokens": 8,
    "temperature": 0,
    # Its thoughts would take all tokens, and leave no answer.
    "chat_template_kwargs": {"enable_thinking": False},
}


def authorization() -> dict[str, str]:
    return {"Authorization": f"Bearer {api_keys(FLEET)[0]}"}


def ask(
    spark: Handle,
    body: dict[str, Any] | None = None,
    timeout: float = 60,
    *,
    port: int = PORT,
    stream: bool = False,
) -> requests.Response:
    """Return the answer to a chat request, whatever it is; of a stream, at its head."""
    return requests.post(
        f"http://{spark.address}:{port}/v1/chat/completions",
        json=body or CHAT,
        headers=authorization(),
        timeout=patience(timeout),
        stream=stream,
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
