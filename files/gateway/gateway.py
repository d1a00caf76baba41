"""The fleet's gateway: LiteLLM's proxy, with a gate in front and an eye on the doors behind.

    gateway.py CONFIGURATION ADDRESS PORT MIB

The gate lets a few paths through, to who has a key: LiteLLM's own keys need a database, and its
other paths are for administrators. A body of more than MIB is refused. Each door is asked every two
seconds whether it serves. A request goes to the replica with the least in flight, and to another
one if that fails. Runs in the environment that requirements.txt makes; the keys are in the
process's environment.
"""

import os
import secrets
import socket
import sys
from pathlib import Path

import litellm
import uvicorn
import yaml
from doors import Doors, Transport
from gate import Gate
from litellm.llms.custom_httpx import aiohttp_transport
from notify import notify

# Seconds that requests in flight have when the gateway stops.
LAST = 30
# Seconds that an idle connection is kept, longer than clients keep theirs (openai's httpx:
# 5 s): where both give it up at a time, a request is lost.
IDLE = 75


class Server(uvicorn.Server):
    """Tells systemd when it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        notify("READY=1")


def main() -> None:
    """Serve until told to stop."""
    configuration, address, port, body_mib = sys.argv[1:]
    keys = set(os.environ["CLIENT_KEYS"].split(","))
    # LiteLLM insists on a key of its own. Nobody else needs to know it.
    own_key = f"sk-{secrets.token_urlsafe(32)}"
    os.environ |= {"LITELLM_MASTER_KEY": own_key, "CONFIG_FILE_PATH": configuration}
    from litellm.proxy.proxy_server import app

    doors = Doors(yaml.safe_load(Path(configuration).read_text())["model_list"])
    litellm.callbacks.append(doors)
    aiohttp_transport.LiteLLMAiohttpTransport = Transport  # type: ignore[misc]
    server = Server(
        uvicorn.Config(
            Gate(app, doors, keys, own_key, int(body_mib) * 1024**2),
            host=address,
            port=int(port),
            access_log=False,
            timeout_keep_alive=IDLE,
            timeout_graceful_shutdown=LAST,
        )
    )
    server.run()


if __name__ == "__main__":
    main()
