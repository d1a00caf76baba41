"""The fleet's gateway: LiteLLM's proxy, with a gate in front and an eye on the doors behind.

    gateway.py CONFIGURATION ADDRESS PORT

The gate lets a few paths through, to who has a key: LiteLLM's own keys need a database, and its
other paths are for administrators. Each door is asked every two seconds whether it serves. A
request goes to the replica with the least in flight, and to another one if that fails. Runs in
the environment that requirements.txt makes; the keys are in the process's environment.
"""

import asyncio
import hashlib
import json
import os
import random
import secrets
import socket
import sys
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import litellm
import uvicorn
import yaml
from litellm.integrations.custom_logger import CustomLogger
from litellm.llms.custom_httpx import aiohttp_transport

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# Seconds between two looks at a door, and until it must have answered.
EVERY, ANSWER = 2, 2
# Seconds until a door must have taken a connection: a Spark without power never does.
CONNECT = 5
# Seconds that requests in flight have when the gateway stops.
LAST = 30
PATHS = {
    "/v1/models": "GET",
    "/v1/chat/completions": "POST",
    "/v1/completions": "POST",
    "/v1/messages": "POST",
    "/v1/responses": "POST",
}
# LiteLLM takes orders and keys from headers; these carry none.
HEADERS = {
    b"accept",
    b"access-control-request-headers",
    b"access-control-request-method",
    b"anthropic-beta",
    b"anthropic-version",
    b"content-length",
    b"content-type",
    b"host",
    b"origin",
    b"transfer-encoding",
    b"user-agent",
}


@dataclass
class Call:
    """A request of a client.

    Attributes:
        tried: The doors that it has gone to.
        others: There are some to which it has not.
        counts: It came through the gate, which says when it ends.
    """

    tried: list[str] = field(default_factory=list)
    others: bool = False
    counts: bool = False


class Doors(CustomLogger):
    """Which replicas serve, and which of them a request is to ask."""

    def __init__(self, models: list[dict[str, Any]]) -> None:
        super().__init__()
        self.replicas: dict[str, str] = {}
        self.keys: dict[str, str] = {}
        for model in models:
            params = model["litellm_params"]
            self.replicas[params["api_base"]] = model["model_info"]["replica"]
            key = params["api_key"].removeprefix("os.environ/")
            self.keys[params["api_base"]] = os.environ.get(key, key)
        self.down: dict[str, str] = {}
        self.in_flight: Counter[str] = Counter()
        self.calls: dict[str, Call] = {}
        self.shown = ""

    async def async_filter_deployments(  # type: ignore[override]
        self,
        model: str,
        healthy_deployments: list[dict[str, Any]],
        messages: Any,
        request_kwargs: dict[str, Any] | None = None,
        parent_otel_span: Any = None,
    ) -> list[dict[str, Any]]:
        """Return the one that is to be asked: LiteLLM calls this for each try of a request."""
        doors = {each["litellm_params"]["api_base"]: each for each in healthy_deployments}
        call = self.calls.get((request_kwargs or {}).get("litellm_call_id", ""), Call())
        if call.tried:
            self.in_flight[call.tried[-1]] -= 1
        new = [door for door in doors if door not in call.tried]
        serving = [door for door in new if door not in self.down]
        # Where none serves, the answer of one says why.
        choice = min(
            serving or new or doors, key=lambda door: (self.in_flight[door], random.random())
        )
        call.tried.append(choice)
        call.others = len(new) > 1
        if call.counts:
            self.in_flight[choice] += 1
        return [doors[choice]]

    def begin(self, name: str) -> Call:
        """Know of a request; its name is what LiteLLM calls it by."""
        call = self.calls[name] = Call(counts=True)
        return call

    def end(self, name: str) -> None:
        """Forget a request that has had its answer."""
        call = self.calls.pop(name)
        if call.tried:
            self.in_flight[call.tried[-1]] -= 1

    async def look(self, client: httpx.AsyncClient) -> None:
        """Ask every door once."""
        states = await asyncio.gather(*(self._state(client, door) for door in self.replicas))
        self.down = {door: why for door, why in zip(self.replicas, states, strict=True) if why}
        if self.summary() != self.shown:
            self.shown = self.summary()
            notify(f"STATUS={self.shown}")
            print(self.shown, flush=True)

    async def _state(self, client: httpx.AsyncClient, door: str) -> str:
        headers = {"authorization": f"Bearer {self.keys[door]}"}
        try:
            answer = await client.get(f"{door}/models", headers=headers)
        except (httpx.HTTPError, OSError) as error:
            return f"no answer from {door}: {error or type(error).__name__}"
        if answer.status_code == 401:
            return f"{door} refuses the key"
        return "" if answer.status_code == 200 else f"{door} answers {answer.status_code}"

    async def watch(self, client: httpx.AsyncClient) -> None:
        """Ask every door from time to time, for ever."""
        while True:
            await asyncio.sleep(EVERY)
            await self.look(client)

    def summary(self) -> str:
        """Which replicas serve, and why the others do not, in one line."""
        up = [name for door, name in self.replicas.items() if door not in self.down]
        lost = [f"{self.replicas[door]} does not ({why})" for door, why in self.down.items()]
        return "; ".join([f"in service: {', '.join(up) or 'none'}", *lost])


class Gate:
    """Lets requests through to LiteLLM."""

    def __init__(self, app: App, doors: Doors, keys: set[str], own_key: str) -> None:
        self.app, self.doors, self.keys, self.own_key = app, doors, keys, own_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
        elif scope["type"] == "http":
            await self._pass(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with httpx.AsyncClient(timeout=ANSWER) as client:
            watch: list[asyncio.Task[None]] = []

            async def told(message: Any) -> None:
                if message["type"] == "lifespan.startup.complete":
                    await self.doors.look(client)
                    watch.append(asyncio.create_task(self.doors.watch(client)))
                await send(message)

            await self.app(scope, receive, told)
            for task in watch:
                task.cancel()

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        if path == "/health" and method in ("GET", "HEAD"):
            serves = len(self.doors.down) < len(self.doors.replicas)
            await answer(send, 200 if serves else 503, {"status": "ok" if serves else "down"})
        elif path not in PATHS:
            await refuse(send, 404, "not_found_error", f"no such path: {path}")
        elif method not in (PATHS[path], "OPTIONS"):
            await refuse(send, 405, "invalid_request_error", f"expected {PATHS[path]}")
        elif method != "OPTIONS" and not self._has_key(scope):
            await refuse(send, 401, "authentication_error", "no valid API key was given")
        else:
            await self._forward(scope, receive, send)

    def _has_key(self, scope: Scope) -> bool:
        headers = dict(scope["headers"])
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        key = token.strip() if scheme.lower() == b"bearer" else headers.get(b"x-api-key", b"")
        return hashlib.sha256(key).hexdigest() in self.keys

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = str(uuid.uuid4())
        headers = [
            *((header, value) for header, value in scope["headers"] if header in HEADERS),
            (b"authorization", f"Bearer {self.own_key}".encode()),
            (b"x-litellm-call-id", name.encode()),
        ]
        body = await read(receive)
        if body is None:
            return
        call = self.doors.begin(name)
        try:
            failed = True
            while failed:
                request = Try(body, receive, send, call)
                await self.app({**scope, "headers": headers}, request.receive, request.send)
                failed = request.failed
        finally:
            self.doors.end(name)


class Try:
    """One try of a request; a failure is not passed on while there are others to try."""

    def __init__(self, body: bytes, receive: Receive, send: Send, call: Call) -> None:
        self.body: bytes | None = body
        self.failed = False
        self._receive, self._send, self._call = receive, send, call

    async def receive(self) -> Any:
        """Return the body, then what else the client says: that it has gone."""
        if self.body is None:
            return await self._receive()
        body, self.body = self.body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Any) -> None:
        """Pass on a part of the answer. A stream's first part comes with its first token."""
        if message["type"] == "http.response.start":
            status = message["status"]
            self.failed = (status == 408 or status >= 500) and self._call.others
        if not self.failed:
            await self._send(message)


async def read(receive: Receive) -> bytes | None:
    """Return the body of a request; None if the client leaves before its end."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def refuse(send: Send, status: int, kind: str, message: str) -> None:
    """Answer with an error in OpenAI's form."""
    await answer(send, status, {"error": {"message": message, "type": kind, "code": status}})


async def answer(send: Send, status: int, content: dict[str, Any]) -> None:
    """Answer with JSON."""
    body = json.dumps(content).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"access-control-allow-origin", b"*"),
        *([(b"www-authenticate", b"Bearer")] if status == 401 else []),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def notify(*assignments: str) -> None:
    """Tell systemd something, as sd_notify(3) does; nothing happens outside a unit."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.sendto("\n".join(assignments).encode(), address.replace("@", "\0", 1))


class Transport(aiohttp_transport.LiteLLMAiohttpTransport):
    """LiteLLM's own, which would wait for a connection for as long as for an answer."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions["timeout"] = {**request.extensions["timeout"], "connect": CONNECT}
        return await super().handle_async_request(request)


class Server(uvicorn.Server):
    """Tells systemd when it listens."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        notify("READY=1")


def main() -> None:
    """Serve until told to stop."""
    configuration, address, port = sys.argv[1:]
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
            Gate(app, doors, keys, own_key),
            host=address,
            port=int(port),
            access_log=False,
            timeout_graceful_shutdown=LAST,
        )
    )
    server.run()


if __name__ == "__main__":
    main()
