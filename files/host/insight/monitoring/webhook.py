"""Sends a message to the owner's webhook, in the form that its address calls for."""

import json
import os
import re
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener, install_opener, urlopen

# Seconds for each step of a connection; the unit bounds the whole.
PATIENCE = 10
_ADDRESS = re.compile(r"(?:(ntfy|slack)\+)?(https?://([^/?]+).*)")


def request(address: str, spark: str, message: str) -> Request:
    """Return a message in the form that its address names (ntfy+https://…), or looks like."""
    ((named, url, host),) = _ADDRESS.findall(address)
    is_slack = named == "slack" or host == "hooks.slack.com" or "/services/" in url
    title = f"Spark {spark}"
    if named == "ntfy" or (host.startswith("ntfy") and not is_slack):
        return Request(url, message.encode(), {"Title": title, "Content-Type": "text/plain"})
    body = {"text": message} if is_slack else {"title": title, "message": message}
    return Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})


class _Stay(HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        """Follow none: a message is for the owner's own server."""


def send(root: Path, spark: str, message: str) -> tuple[bool, str]:
    """Send a message; tell whether it has arrived, and what was answered, without the address."""
    try:
        folder = os.environ.get("CREDENTIALS_DIRECTORY") or root / "secrets"
        asked = request(Path(folder, "webhook").read_text("ascii").strip(), spark, message)
        install_opener(build_opener(_Stay))
        with urlopen(asked, timeout=PATIENCE) as answer:
            return True, f"the webhook answered {answer.status}"
    except FileNotFoundError:
        line = 'notify = "https://ntfy.lan/sparks"'
        return False, f"no webhook is set here: add {line} to group_data/sparks.py, and apply"
    except HTTPError as error:
        remedies = {3: "it leads elsewhere: use that address", 4: "copy its address anew"}
        remedy = remedies.get(error.code // 100, "look at that server")
        return False, f"the webhook answered {error.code}: {remedy}"
    except (OSError, HTTPException, ValueError) as error:
        why = getattr(error, "reason", None) or getattr(error, "strerror", None)
        return False, f"no answer of the webhook ({str(why or 'no HTTP, or too late')[:200]})"
