"""The fleet's gateway: LiteLLM's proxy, with a gate in front and an eye on the doors behind.

    gateway CONFIGURATION

Clients come by a door of its own (HAProxy), which asks for their key and bounds what they send, to
the socket that systemd passes. The gate lets a few paths and the fields of a request through:
LiteLLM's other ones are for administrators. Each door is asked every two seconds whether it serves.
A request goes to the replica with the least in flight, and to another one if that fails. Runs in
the environment that requirements.txt makes; the doors' key is systemd's credential `keys`.
"""

import argparse
import os
import secrets
import socket
from pathlib import Path

import litellm
import uvicorn
import yaml
from litellm.llms.custom_httpx import aiohttp_transport

from host.common.log import notify
from host.gateway.doors import Doors, Transport
from host.gateway.gate import Gate

# Seconds that requests in flight have when the gateway stops.
LAST = 30
# The first that systemd passes: sd_listen_fds(3).
SOCKET = 3


class Server(uvicorn.Server):
    """Tells systemd when it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        notify("READY=1")


def command() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("CONFIGURATION")
    configuration = parser.parse_args().CONFIGURATION
    given = Path(os.environ["CREDENTIALS_DIRECTORY"], "keys").read_text("utf-8").splitlines()
    # LiteLLM looks for keys in the environment; what is put there now, /proc does not show.
    os.environ |= dict(line.split("=", 1) for line in given)
    # LiteLLM insists on a key of its own. Nobody else needs to know it.
    own_key = f"sk-{secrets.token_urlsafe(32)}"
    os.environ |= {"LITELLM_MASTER_KEY": own_key, "CONFIG_FILE_PATH": configuration}
    from litellm.proxy.proxy_server import app

    doors = Doors(yaml.safe_load(Path(configuration).read_text("utf-8"))["model_list"])
    litellm.callbacks.append(doors)
    aiohttp_transport.LiteLLMAiohttpTransport = Transport  # type: ignore[misc]
    server = Server(
        uvicorn.Config(
            Gate(app, doors, own_key),
            fd=SOCKET,
            access_log=False,
            timeout_graceful_shutdown=LAST,
        )
    )
    server.run()
