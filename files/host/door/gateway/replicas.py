"""The replicas behind the gateway: which of them serve, and which of them a request goes to."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from aiohttp import ClientError, ClientSession, ClientTimeout

from host.common.log import show

# Seconds between two looks at a door, and until it must have answered.
EVERY, ANSWER = 2, 2


@dataclass(eq=False)
class Backend:
    """A replica, as its door shows it.

    Attributes:
        authorization: The header that opens its door; empty where it needs none.
        on_demand: Requests start it.
        fault: Why it does not serve; empty while it does.
        state: What clients are told of it; "stopped": its door has no engine, a request starts one.
        in_flight: Requests that it has not answered to the end.
    """

    name: str
    url: str
    authorization: dict[str, str]
    on_demand: bool = False
    fault: str = ""
    state: str = "serving"
    in_flight: int = 0

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Count a request while it is in flight."""
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1

    async def look(self, session: ClientSession) -> None:
        """Ask its door whether it serves; that starts none, as only a POST does."""
        try:
            # The body is not read: it may have no end.
            async with session.get(
                f"{self.url}/v1/models",
                headers=self.authorization,
                timeout=ClientTimeout(total=ANSWER),
                allow_redirects=False,
            ) as answer:
                status = answer.status
        except (ClientError, OSError, TimeoutError) as error:
            self.fault = f"no answer from {self.url}: {error or type(error).__name__}"
            self.state = "down"
            return
        said = "refuses the key" if status == 401 else f"answers {status}"
        self.fault = "" if status == 200 else f"{self.url} {said}"
        waits = self.on_demand and status == 503
        self.state = "serving" if status == 200 else "stopped" if waits else "down"


def choice(replicas: Sequence[Backend]) -> Backend:
    """Return the one that is to be asked: it serves, if any does, and has the least in flight.

    Else it is one that requests start, rather than one that cannot be reached; and of several the
    one that has been asked already.
    """
    rest = [each for each in replicas if each.state == "stopped"]
    if rest and all(each.fault for each in replicas):
        return max(rest, key=lambda each: (each.in_flight, random.random()))
    return min(replicas, key=lambda each: (each.fault != "", each.in_flight, random.random()))


async def look(replicas: Sequence[Backend], session: ClientSession) -> None:
    """Ask every door once; tell systemd which replicas serve, and why the others do not."""
    await asyncio.gather(*(each.look(session) for each in replicas))
    serving = ", ".join(each.name for each in replicas if not each.fault)
    rests = [f"started by requests: {each.name}" for each in replicas if each.state == "stopped"]
    lost = [f"{each.name} does not ({each.fault})" for each in replicas if each.state == "down"]
    show("; ".join([f"in service: {serving or 'none'}", *lost, *rests]))


async def watch(replicas: Sequence[Backend], session: ClientSession) -> None:
    """Ask every door from time to time, for ever."""
    while True:
        await asyncio.sleep(EVERY)
        await look(replicas, session)
