"""The doors behind the gateway: which of them serve, and which of them a request is to ask."""

import asyncio
import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from litellm.integrations.custom_logger import CustomLogger
from litellm.llms.custom_httpx import aiohttp_transport

from host.common.log import show

# Seconds between two looks at a door, and until it must have answered.
EVERY, ANSWER = 2, 2
# Seconds until a door must have taken a connection: a Spark without power never does.
CONNECT = 5
# By which a door answers at once, where it would hold a request until an engine serves.
NOW = {"Prefer": "wait=0"}


@dataclass
class GatewayCall:
    """A request of a client.

    Attributes:
        tried: The doors that it has gone to.
        others: There are doors to which it has not gone.
    """

    tried: list[str] = field(default_factory=list)
    others: bool = False


class Doors(CustomLogger):
    """Which replicas serve, and which of them a request is to ask."""

    def __init__(self, models: list[dict[str, Any]]) -> None:
        super().__init__()
        self.models = {model["model_name"] for model in models}
        self.replicas: dict[str, str] = {}
        self.keys: dict[str, str] = {}
        for model in models:
            params = model["litellm_params"]
            self.replicas[params["api_base"]] = model["model_info"]["replica"]
            key = params["api_key"].removeprefix("os.environ/")
            self.keys[params["api_base"]] = os.environ.get(key, key)
        self.down: dict[str, str] = {}
        self.in_flight: Counter[str] = Counter()
        self.calls: dict[str, GatewayCall] = {}

    @contextmanager
    def call(self, name: str) -> Iterator[GatewayCall]:
        """Know of a request until it has had its answer; LiteLLM calls it by this name."""
        call = self.calls[name] = GatewayCall()
        try:
            yield call
        finally:
            del self.calls[name]
            self.in_flight.subtract(call.tried[-1:])

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
        known = self.calls.get((request_kwargs or {}).get("litellm_call_id", ""))
        call = known or GatewayCall()
        new = [door for door in doors if door not in call.tried]
        serving = [door for door in new if door not in self.down]
        self.in_flight.subtract(call.tried[-1:])
        # Where none serves, the answer of one says why.
        choice = min(
            serving or new or doors, key=lambda door: (self.in_flight[door], random.random())
        )
        if known:
            self.in_flight[choice] += 1
        call.tried.append(choice)
        call.others = len(new) > 1
        found = doors[choice]
        if call.others:
            # Another one may serve. Where none does, the request waits at the last.
            params = {**found["litellm_params"], "extra_headers": NOW}
            found = {**found, "litellm_params": params}
        return [found]

    async def look(self, client: httpx.AsyncClient) -> None:
        """Ask every door once; tell systemd which replicas serve, and why the others do not."""
        states = await asyncio.gather(*(self._state(client, door) for door in self.replicas))
        self.down = {door: why for door, why in zip(self.replicas, states, strict=True) if why}
        up = [name for door, name in self.replicas.items() if door not in self.down]
        lost = [f"{self.replicas[door]} does not ({why})" for door, why in self.down.items()]
        show("; ".join([f"in service: {', '.join(up) or 'none'}", *lost]))

    async def watch(self, client: httpx.AsyncClient) -> None:
        """Ask every door from time to time, for ever."""
        while True:
            await asyncio.sleep(EVERY)
            await self.look(client)

    async def _state(self, client: httpx.AsyncClient, door: str) -> str:
        headers = {"authorization": f"Bearer {self.keys[door]}"}
        try:
            # The body is not read: it may have no end.
            async with (
                asyncio.timeout(ANSWER),
                client.stream("GET", f"{door}/models", headers=headers) as answer,
            ):
                pass
        except (httpx.HTTPError, OSError) as error:
            return f"no answer from {door}: {error or type(error).__name__}"
        if answer.status_code == 401:
            return f"{door} refuses the key"
        return "" if answer.status_code == 200 else f"{door} answers {answer.status_code}"


class Transport(aiohttp_transport.LiteLLMAiohttpTransport):
    """LiteLLM's own, which would wait for a connection for as long as for an answer."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions["timeout"] = {**request.extensions["timeout"], "connect": CONNECT}
        return await super().handle_async_request(request)
