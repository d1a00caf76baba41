"""The gate before LiteLLM: a few paths, bounded requests, and of a body what `forms` knows."""

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import httpx

from host.door.gateway.body import VALUE, Intake, JudgedBody, RefusedRequest, judged
from host.door.gateway.doors import ANSWER, Doors, GatewayCall
from host.door.gateway.forms import FIELDS

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# Bytes of a body that is judged at once, within some milliseconds; others take their turn beside
# the loop, which then waits for no step of it longer than 30 ms.
_SMALL = 16 << 10
# Seconds in which a body must have come: two megabits a second.
_SECONDS = 60
_METHODS = {"/v1/models": "GET", **dict.fromkeys(FIELDS, "POST")}
# In which the door says whose key a request has: sparkwright/door/gateway/files.py.
_CLIENT = b"x-sparkwright-client"
# LiteLLM takes orders and keys from headers; these carry none.
_HEADERS = {
    *(b"accept", b"access-control-request-headers", b"access-control-request-method"),
    *(b"anthropic-beta", b"anthropic-version", b"host", b"origin", b"user-agent"),
}
_KINDS = {404: "not_found_error", 429: "server_error", 503: "server_error"}


class Gate:
    """Lets requests through to LiteLLM.

    Args:
        own_key: The key that LiteLLM wants.
    """

    def __init__(self, app: App, doors: Doors, own_key: str) -> None:
        self.app, self.doors, self.own_key = app, doors, own_key
        self.intake, self._judge = Intake(), ThreadPoolExecutor(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
        elif scope["type"] == "http":
            try:
                await self._pass(scope, receive, send)
            except RefusedRequest as error:
                kind = _KINDS.get(error.status, "invalid_request_error")
                told = {"message": str(error), "type": kind, "param": error.place}
                await answer(send, error.status, {"error": {**told, "code": error.status}})
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with httpx.AsyncClient(timeout=ANSWER) as client:
            watch: list[asyncio.Task[None]] = []

            async def started(message: Any) -> None:
                if message["type"] == "lifespan.startup.complete":
                    await self.doors.look(client)
                    watch.append(asyncio.create_task(self.doors.watch(client)))
                await send(message)

            await self.app(scope, receive, started)
            for task in watch:
                task.cancel()

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        path, method = scope["path"], scope["method"]
        if path == "/health" and method in ("GET", "HEAD"):
            serves = len(self.doors.down) < len(self.doors.replicas)
            await answer(send, 200 if serves else 503, {"status": "ok" if serves else "down"})
            return
        if path not in _METHODS:
            raise RefusedRequest(f"no such path: {path}", status=404)
        if method not in (_METHODS[path], "OPTIONS"):
            raise RefusedRequest(f"expected {_METHODS[path]}", status=405)
        given = dict(scope["headers"])
        client = given.get(_CLIENT, b"").decode("latin-1")
        try:
            taken = self.intake.take(client, int(given.get(b"content-length", b"0")))
        except RefusedRequest:
            # What still comes is in the way of the answer.
            with suppress(RefusedRequest):
                await read(receive, keep=False)
            raise
        with taken:
            body = await read(receive)
            if method == "POST":
                found = await self._judged(path, body)
                taken.enter_context(self.intake.take(client, found.values * VALUE))
                body = found.body
            await self._serve(scope, receive, send, body)

    async def _judged(self, path: str, body: bytes) -> JudgedBody:
        if len(body) <= _SMALL:
            found = judged(path, body)
        else:
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(self._judge, judged, path, body)
        if found.model not in self.doors.models:
            why = f"Invalid model name: {found.model}. GET /v1/models lists them."
            raise RefusedRequest(why, "model")
        return found

    async def _serve(self, scope: Scope, receive: Receive, send: Send, body: bytes) -> None:
        name = str(uuid.uuid4())
        headers = [
            *((header, value) for header, value in scope["headers"] if header in _HEADERS),
            (b"authorization", f"Bearer {self.own_key}".encode()),
            (b"content-length", str(len(body)).encode()),
            (b"content-type", b"application/json"),
            (b"x-litellm-call-id", name.encode()),
        ]
        passed = {**scope, "headers": headers, "query_string": b""}
        with self.doors.call(name) as call:
            while await self._fails(passed, body, receive, send, call):
                pass

    async def _fails(
        self, scope: Scope, body: bytes, receive: Receive, send: Send, call: GatewayCall
    ) -> bool:
        """Try a request once; a failure is not passed on while there are other doors to try."""
        unread, failed = [body], False

        async def given() -> Any:
            # After the body, what else the client says: that it has gone.
            if not unread:
                return await receive()
            return {"type": "http.request", "body": unread.pop(), "more_body": False}

        async def passed_on(message: Any) -> None:
            nonlocal failed
            # A stream's first part comes with its first token.
            if message["type"] == "http.response.start":
                status = message["status"]
                failed = (status == 408 or status >= 500) and call.others
            if not failed:
                await send(message)

        await self.app(scope, given, passed_on)
        return failed


async def read(receive: Receive, keep: bool = True) -> bytes:
    """Return the body of a request; without `keep`, b"".

    Raises:
        RefusedRequest: The client leaves, or does not send it in time.
    """
    parts: list[bytes] = []
    with suppress(TimeoutError):
        async with asyncio.timeout(_SECONDS):
            while (message := await receive())["type"] != "http.disconnect":
                parts += [message.get("body", b"")] if keep else []
                if not message.get("more_body"):
                    return b"".join(parts)
    raise RefusedRequest("the body did not come in time", status=408)


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
