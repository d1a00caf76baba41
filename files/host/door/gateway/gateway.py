"""The fleet's gateway: passes each request to one of the replicas that serve its model.

Clients come by a door of its own (HAProxy), which asks for their key and bounds what they send, to
the socket that systemd passes. Each door behind is asked every two seconds whether it serves. A
request goes to the replica with the least in flight, and to another one if that fails before its
answer begins. Runs in the environment that requirements.txt makes; the doors' key is systemd's
credential `key`.
"""

import asyncio
import json
import logging
import os
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import ClientError, ClientTimeout, web

from host.common.log import notify
from host.door.gateway.body import Intake, RefusedRequest, parsed, rewritten
from host.door.gateway.replicas import Backend, choice, look, watch

# Seconds that requests in flight have when the gateway stops.
LAST = 30
# Seconds until a door must have taken a connection: a Spark without power never does.
CONNECT = 5
# Seconds for which a connection is kept: an older one may lead to a Spark without power.
_IDLE = 3
# Seconds in which a body must have come, and bytes of it: 8 MiB, as its door has it.
_BODY, _LARGEST = 60, (8 << 20) + 1
# The first that systemd passes: sd_listen_fds(3).
SOCKET = 3
# In which the door says whose key a request has: sparkwright/door/gateway/gateway.py.
_CLIENT = "x-sparkwright-client"
_PATHS = (
    *("/v1/chat/completions", "/v1/completions", "/v1/responses"),
    *("/v1/messages", "/v1/messages/count_tokens"),
    *("/v1/embeddings", "/v1/rerank", "/v1/score"),
)
# Headers that are passed on: of a request, and of an answer.
_ASKED = ("accept", "anthropic-beta", "anthropic-version", "user-agent", "x-request-id")
_ANSWERED = ("content-length", "content-type", "retry-after", "x-request-id")
# With these a door, or an engine, says that another one may answer.
_ELSEWHERE = (401, 408, 429)
# Bytes of a line in a stream that is held back until it is whole.
_LINE = 1 << 20
_BROKEN = (
    b'\nevent: error\ndata: {"type": "error", "error": {"type": "api_error", "message": '
    b'"The replica ended in the middle of its answer.", "param": null, "code": 502}}\n\n'
)
_KINDS = {404: "not_found_error", 429: "rate_limit_error"}


class GatewayProxy:
    """What clients ask, by paths; sparkwright/door/gateway/gateway.py writes the configuration."""

    session: aiohttp.ClientSession

    def __init__(self, configuration: dict[str, Any], key: str) -> None:
        self.intake, self._trusted = Intake(), configuration["trusted"]
        keyed = {"Authorization": f"Bearer {key}"}
        self.replicas = {
            name: Backend(name, door["url"], keyed if door["keyed"] else {}, door["on_demand"])
            for name, door in configuration["doors"].items()
        }
        self.barred = configuration["barred"]
        self.models = configuration["models"]

    def application(self) -> web.Application:
        """Return what answers."""
        app = web.Application(middlewares=[_in_json], client_max_size=_LARGEST)
        app.add_routes([web.get("/health", self._health), web.get("/v1/models", self._list)])
        app.add_routes(web.post(path, self._forward) for path in _PATHS)
        app.add_routes(web.options(path, _preflight) for path in ("/v1/models", *_PATHS))
        app.on_response_prepare.append(_for_browsers)
        app.cleanup_ctx.append(self._running)
        return app

    async def _running(self, app: web.Application) -> AsyncIterator[None]:
        context = ssl.create_default_context()
        if self._trusted:
            context.load_verify_locations(cadata=self._trusted)
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, ssl=context, socket_factory=_socket, keepalive_timeout=_IDLE
            ),
            timeout=ClientTimeout(total=None, sock_connect=CONNECT),
            headers={"Accept-Encoding": "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
        ) as self.session:
            replicas = [*self.replicas.values()]
            await look(replicas, self.session)
            watching = asyncio.create_task(watch(replicas, self.session))
            notify("READY=1")
            yield
            watching.cancel()

    async def _health(self, request: web.Request) -> web.Response:
        down = all(each.state == "down" for each in self.replicas.values())
        status, said = (503, "down") if down else (200, "ok")
        return web.json_response({"status": said}, status=status)

    async def _list(self, request: web.Request) -> web.Response:
        own, replicas = {"object": "model", "created": 0, "owned_by": "sparkwright"}, self.replicas
        models = [
            {"id": name, **own, "state": choice([replicas[one] for one in each["replicas"]]).state}
            for name, each in self.models.items()
        ]
        return web.json_response({"object": "list", "data": models})

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        with self.intake.taken(request.headers.get(_CLIENT, ""), request.content_length or 0):
            try:
                async with asyncio.timeout(_BODY):
                    name, fields = parsed(await request.read())
            except TimeoutError:
                raise RefusedRequest("the body did not come in time", 408) from None
            if not (model := self.models.get(name)):
                why = f"Invalid model name: {name}. GET /v1/models lists them."
                raise RefusedRequest(why, field="model")
            body = rewritten({**model["defaults"], **fields, "model": model["served"]})
            del fields
            untried = [self.replicas[each] for each in model["replicas"]]
            while True:
                replica = choice(untried)
                untried.remove(replica)
                barred = replica.name in self.barred.get(request.headers.get(_CLIENT, ""), ())
                last = not untried or (replica.state == "stopped" and not barred)
                with replica.busy():
                    answer = await self._ask(replica, request, body, last, barred)
                if answer is not None:
                    return answer

    async def _ask(
        self, replica: Backend, request: web.Request, body: bytes, last: bool, barred: bool
    ) -> web.StreamResponse | None:
        """Pass on what a replica answers; None where another one may answer instead.

        One that is `barred` to this client's key is not started for it.
        """
        headers = {each: request.headers[each] for each in _ASKED if each in request.headers}
        headers |= {"Content-Type": "application/json", **replica.authorization}
        if not last or barred:
            # Its door answers at once, where it would hold the request until an engine serves.
            headers["Prefer"] = "wait=0"
        async with AsyncExitStack() as stack:
            try:
                asked = self.session.post(
                    replica.url + request.path, data=body, headers=headers, allow_redirects=False
                )
                answer = await stack.enter_async_context(asked)
                # A stream's first part comes with its first token.
                first = await answer.content.readany()
            except (ClientError, OSError) as error:
                if last:
                    why = f"replica {replica.name} did not answer ({type(error).__name__})"
                    raise RefusedRequest(why, 502) from None
                return None
            if not last and (answer.status >= 500 or answer.status in _ELSEWHERE):
                return None
            if barred and answer.status == 503:
                why = f"{replica.name} is stopped, and this key does not start it"
                raise RefusedRequest(why, 403)
            passed = {each: answer.headers[each] for each in _ANSWERED if each in answer.headers}
            response = web.StreamResponse(status=answer.status, headers=passed)
            await response.prepare(request)
            async for part in _parts(answer, first):
                await response.write(part)
            await response.write_eof()
            return response


async def _parts(answer: aiohttp.ClientResponse, data: bytes) -> AsyncIterator[bytes]:
    """Yield an answer as it comes; a stream that breaks off ends with an event that says so."""
    streams, rest = answer.content_type == "text/event-stream", b""
    try:
        while data:
            if streams and len(rest) < _LINE:
                whole, end, rest = (rest + data).rpartition(b"\n")
                data = whole + end
            else:
                data, rest = rest + data, b""
            if data:
                yield data
            data = await answer.content.readany()
        if rest:
            yield rest
    except (ClientError, OSError):
        if not streams:
            raise
        yield _BROKEN


def _socket(address: Any) -> socket.socket:
    """Return a socket that fails after 30 s of silence: a Spark without power says nothing."""
    made = socket.socket(*address[:3])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    return made


@web.middleware
async def _in_json(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Answer what is refused in the forms of OpenAI's and Anthropic's errors."""
    try:
        return await handler(request)
    except RefusedRequest as error:
        status, why, field = error.status, str(error), error.field
    except web.HTTPException as error:
        status, why, field = error.status, error.reason, None
    except ConnectionError:
        # The client has gone, which aiohttp would log as a fault.
        raise asyncio.CancelledError from None
    kind = _KINDS.get(status, "invalid_request_error" if status < 500 else "api_error")
    told = {"message": why, "type": kind, "param": field, "code": status}
    return web.json_response({"type": "error", "error": told}, status=status)


async def _preflight(request: web.Request) -> web.Response:
    """Answer what a browser asks before a request."""
    wanted = request.headers.get("access-control-request-headers", "")
    allowed = {"Access-Control-Allow-Methods": "GET, POST", "Access-Control-Allow-Headers": wanted}
    return web.Response(headers=allowed)


async def _for_browsers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Access-Control-Allow-Origin"] = "*"


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
    logging.setLogRecordFactory(record)
    key = Path(os.environ["CREDENTIALS_DIRECTORY"], "key").read_text("utf-8").strip()
    gateway = GatewayProxy(json.loads(Path(sys.argv[1]).read_text("utf-8")), key)
    web.run_app(
        gateway.application(),
        sock=socket.socket(fileno=SOCKET),
        handler_cancellation=True,
        shutdown_timeout=LAST,
        access_log=None,
        print=None,
    )
