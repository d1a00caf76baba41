"""Runs `vllm bench serve` inside of the engine's container, as often as standard input says.

A line of input is {"arguments": […], "requests": [{"prompt", "output_tokens"}, …], "seconds": N},
a line of output the tool's own result, or {"error": "why"}. After N seconds, where N is not 0,
nothing more is asked: the requests that are left have the error "time is up".

It is Python's -c that brings this program in, and prompts and results go through memory: the
container's files stay as they are. When the input ends this process ends at once, so none is left
behind by whoever fed it.
"""

import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

Ask = Callable[..., Awaitable[Any]]

SOCKET = "/run/vllm/api.sock"
# The tool's own functions that send a request, by its names for APIs.
_ASKS: dict[str, Ask] = {}


def read(orders: "queue.Queue[dict[str, Any]]") -> None:
    """Take in orders; end with the input, whatever is under way."""
    for line in sys.stdin:
        orders.put(json.loads(line))
    os._exit(0)


def until(
    ask: Ask,
    seconds: float,
    unasked: Callable[[float], Any],
    clock: Callable[[], float] = time.perf_counter,
) -> Ask:
    """Return what asks as `ask` does, and nothing more once so many seconds have passed.

    Args:
        ask: sends one request.
        seconds: from the first one on.
        unasked: returns what stands for one that was not sent, at a time of the clock.
        clock: the tool's own.
    """
    begun: list[float] = []

    async def asked(*request: Any, **more: Any) -> Any:
        begun.append(clock())
        if begun[-1] - begun[0] < seconds:
            return await ask(*request, **more)
        return unasked(begun[-1])

    return asked


def by_socket() -> None:
    """Have the tool reach the engine by its socket: it knows ports alone."""
    from vllm.benchmarks import serve

    def connector(**of: Any) -> Any:
        kept = ("limit", "limit_per_host", "keepalive_timeout")
        return unix(SOCKET, **{name: of[name] for name in kept if name in of})

    unix = serve.aiohttp.UnixConnector
    serve.aiohttp.TCPConnector = connector


def stop_after(seconds: float) -> None:
    """Let the tool ask for so many seconds at the most; it has no option for that."""
    from vllm.benchmarks import serve

    def unasked(now: float) -> Any:
        output = serve.RequestFuncOutput()
        output.error, output.start_time = "time is up", now
        return output

    if not _ASKS:
        _ASKS.update(serve.ASYNC_REQUEST_FUNCS)
    for name, ask in _ASKS.items():
        serve.ASYNC_REQUEST_FUNCS[name] = until(ask, seconds, unasked) if seconds else ask


def run(order: dict[str, Any]) -> Any:
    """Return the result of one run."""
    from vllm.benchmarks.datasets import CustomDataset
    from vllm.entrypoints.cli.main import main

    # The tool reads prompts with pandas, which several images of vLLM lack (vllm-project/vllm
    # #40144), and shuffles them.
    CustomDataset.load_data = lambda dataset: setattr(dataset, "data", order["requests"])
    file = os.memfd_create("result")
    try:
        by_socket()
        stop_after(order["seconds"])
        sys.argv = ["vllm", "bench", "serve", *order["arguments"]]
        sys.argv += ["--dataset-name", "custom", "--dataset-path", "prompts.jsonl"]
        sys.argv += ["--save-result", "--save-detailed"]
        sys.argv += ["--result-dir", "/proc/self/fd", "--result-filename", str(file)]
        main()
        os.lseek(file, 0, os.SEEK_SET)
        with os.fdopen(os.dup(file), encoding="utf-8") as result:
            return json.load(result)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"[:500]}
    finally:
        os.close(file)


def work() -> None:
    """Do as the input says."""
    # What the tool prints is for the journal.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    orders: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=read, args=(orders,), daemon=True).start()
    while True:
        print(json.dumps(run(orders.get())), file=answers, flush=True)


if __name__ == "__main__":
    work()
