"""The fleet's gateway: LiteLLM's proxy, with a gate in front and an eye on the doors behind.

    gateway CONFIGURATION

Clients come by a door of its own (HAProxy), which asks for their key and bounds what they send, to
the socket that systemd passes. The gate lets a few paths and the fields of a request through:
LiteLLM's other ones are for administrators. Each door is asked every two seconds whether it serves.
A request goes to the replica with the least in flight, and to another one if that fails. Runs in
the environment that requirements.txt makes; the doors' key is systemd's credential `keys`.
"""

import logging
import os
import re
import secrets
import socket
import sys
import traceback
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import litellm
import uvicorn
import yaml
from litellm.litellm_core_utils import secret_redaction
from litellm.llms.custom_httpx import aiohttp_transport

from host.common.log import notify
from host.door.gateway.doors import Doors, Transport
from host.door.gateway.gate import Gate

# Seconds that requests in flight have when the gateway stops.
LAST = 30
# The first that systemd passes: sd_listen_fds(3).
SOCKET = 3
# Characters of a message in which LiteLLM looks for secrets; of a long one it would for minutes.
SEARCHED = 4096


class Server(uvicorn.Server):
    """Tells systemd when it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        notify("READY=1")


class Searched:
    """A pattern of LiteLLM's, of what is secret in a message; of a long one the rest is cut off."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern

    def sub(self, instead: Any, message: str) -> str:
        return self._pattern.sub(instead, message[:SEARCHED])


def record(*given: Any, **more: Any) -> logging.LogRecord:
    """Return a record of what failed and where, without a message: prompts may be in it."""
    made = logging.LogRecord(*given, **more)
    error = made.exc_info and made.exc_info[0]
    kind = error.__name__ if error else made.levelname.lower()
    made.msg, made.args = f"{made.name}: {kind} at {made.filename}:{made.lineno}", ()
    made.exc_info = made.stack_info = None
    return made


def command() -> None:
    """Serve until told to stop."""
    configuration = sys.argv[-1]
    if len(sys.argv) != 2 or configuration in ("-h", "--help"):
        print(__doc__)
        return
    credentials = Path(os.environ["CREDENTIALS_DIRECTORY"], "keys").read_text("utf-8").splitlines()
    # LiteLLM looks for keys in the environment; what is put there now, /proc does not show.
    os.environ |= dict(line.split("=", 1) for line in credentials)
    # LiteLLM insists on a key of its own. Nobody else needs to know it.
    own_key = f"sk-{secrets.token_urlsafe(32)}"
    os.environ |= {"LITELLM_MASTER_KEY": own_key, "CONFIG_FILE_PATH": configuration}
    from litellm.proxy.proxy_server import app

    doors = Doors(yaml.safe_load(Path(configuration).read_text("utf-8"))["model_list"])
    litellm.callbacks.append(doors)
    aiohttp_transport.LiteLLMAiohttpTransport = Transport  # type: ignore[misc]
    for each in ("_SECRET_RE", "_INTERNAL_DETAIL_RE"):
        setattr(secret_redaction, each, Searched(getattr(secret_redaction, each)))
    # What fails may tell of a prompt by a log, a warning, or a print.
    logging.setLogRecordFactory(record)
    logging.captureWarnings(True)
    traceback.print_exc = lambda *where, **how: None
    gate = Gate(app, doors, own_key)
    config = uvicorn.Config(
        gate, fd=SOCKET, access_log=False, log_level="warning", timeout_graceful_shutdown=LAST
    )
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
        Server(config).run()
