"""The gate before LiteLLM: a few paths, and the fields of a request."""

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import httpx

from host.gateway.doors import ANSWER, Doors, GatewayCall
from host.gateway.intake import SECONDS, VALUE, Intake, Judge
from host.gateway.shapes import RefusedBody

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

PATHS = {
    "/v1/models": "GET",
    "/v1/chat/completions": "POST",
    "/v1/completions": "POST",
    "/v1/embeddings": "POST",
    "/v1/messages": "POST",
    "/v1/rerank": "POST",
    "/v1/responses": "POST",
}
# By which the door tells whose key a request has: sparkwright/gateway/files.py.
CLIENT = b"x-sparkwright-client"
_FULL = {
    429: "Too many bytes of this key's requests are in flight: wait for answers.",
    503: "Too many bytes of requests are in flight.",
}
# LiteLLM takes orders and keys from headers; these carry none.
HEADERS = {
    b"accept",
    b"access-control-request-headers",
    b"access-control-request-method",
    b"anthropic-beta",
    b"anthropic-version",
    b"host",
    b"origin",
    b"user-agent",
}


class Gate:
    """Lets requests through to LiteLLM.

    Args:
        own_key: what LiteLLM wants to be asked with.
    """

    def __init__(self, app: App, doors: Doors, own_key: str) -> None:
        self.app, self.doors, self.own_key = app, doors, own_key
        self.intake, self.judge = Intake(), Judge()

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
            self.judge.end()

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        if path == "/health" and method in ("GET", "HEAD"):
            serves = len(self.doors.down) < len(self.doors.replicas)
            await answer(send, 200 if serves else 503, {"status": "ok" if serves else "down"})
        elif path not in PATHS:
            await refuse(send, 404, "not_found_error", f"no such path: {path}")
        elif method not in (PATHS[path], "OPTIONS"):
            await refuse(send, 405, "invalid_request_error", f"expected {PATHS[path]}")
        else:
            await self._forward(scope, receive, send)

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope["headers"])
        client = given.get(CLIENT, b"").decode("latin-1")
        size = int(given.get(b"content-length", b"0"))
        full = self.intake.take(client, size)
        if full:
            await read(receive, keep=False)
            await refuse(send, full, "server_error", _FULL[full])
            return
        try:
            body = await read(receive)
            if body is None:
                await refuse(send, 408, "invalid_request_error", "the body did not come in time")
            elif scope["method"] == "POST":
                await self._judge(scope, receive, send, client, body)
            else:
                await self._serve(scope, receive, send, body)
        finally:
            self.intake.give(client, size)

    async def _judge(
        self, scope: Scope, receive: Receive, send: Send, client: str, body: bytes
    ) -> None:
        try:
            found = await self.judge(scope["path"], body)
        except RefusedBody as refused:
            await refuse(send, 400, "invalid_request_error", str(refused), refused.place)
            return
        if found.model not in self.doors.models:
            why = f"Invalid model name: {found.model}. GET /v1/models lists them."
            await refuse(send, 400, "invalid_request_error", why, "model")
            return
        size = found.values * VALUE
        full = self.intake.take(client, size)
        if full:
            await refuse(send, full, "server_error", _FULL[full])
            return
        try:
            await self._serve(scope, receive, send, found.body)
        finally:
            self.intake.give(client, size)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, body: bytes) -> None:
        name = str(uuid.uuid4())
        headers = [
            *((header, value) for header, value in scope["headers"] if header in HEADERS),
            (b"authorization", f"Bearer {self.own_key}".encode()),
            (b"content-length", str(len(body)).encode()),
            (b"content-type", b"application/json"),
            (b"x-litellm-call-id", name.encode()),
        ]
        passed = {**scope, "headers": headers, "query_string": b""}
        call = self.doors.begin(name)
        try:
            failed = True
            while failed:
                request = Try(body, receive, send, call)
                await self.app(passed, request.receive, request.send)
                failed = request.failed
        finally:
            self.doors.end(name)


class Try:
    """One try of a request; a failure is not passed on while there are others to try."""

    def __init__(self, body: bytes, receive: Receive, send: Send, call: GatewayCall) -> None:
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


async def read(receive: Receive, keep: bool = True) -> bytes | None:
    """Return the body of a request; None if the client leaves, or has not sent it in time.

    Args:
        keep: Its bytes are needed; else they only make room for the answer.
    """
    parts: list[bytes] = []
    try:
        async with asyncio.timeout(SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return None
                if keep:
                    parts.append(message.get("body", b""))
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        return None


async def refuse(
    send: Send, status: int, kind: str, message: str, param: str | None = None
) -> None:
    """Answer with an error in OpenAI's form."""
    error = {"message": message, "type": kind, "param": param, "code": status}
    await answer(send, status, {"error": error})


async def answer(send: Send, status: int, content: dict[str, Any]) -> None:
    """Answer with JSON."""
    body = json.dumps(content).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"access-control-allow-origin", b"*"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
