"""`vllm bench serve`: asks a server as vLLM's tool does, and writes down what it saw.

It is imported by the names that files/benchmark/bench_tool.py knows, and has nothing of the tool
but what that one uses. It does not end by time.
"""

import argparse
import http.client
import json
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ASYNC_REQUEST_FUNCS: dict[str, Any] = {}


class UnixConnector:
    """A connection to the tool's server, by a socket if its path is given."""

    def __init__(self, path: str, **_: Any) -> None:
        self.path = path


aiohttp = SimpleNamespace(UnixConnector=UnixConnector, TCPConnector=None)


class CustomDataset:
    """The requests; whoever calls the tool says how they are read."""

    data: list[dict[str, Any]]

    def load_data(self) -> None:
        """Read them."""


def main() -> None:
    """Ask all requests, and write the result as JSON."""
    parser = argparse.ArgumentParser()
    for name in ("base-url", "endpoint", "model", "extra-body", "result-dir", "result-filename"):
        parser.add_argument(f"--{name}")
    for name in ("num-prompts", "max-concurrency"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--temperature", type=float)
    parser.add_argument("--ignore-eos", action="store_true")
    options, _ = parser.parse_known_args(sys.argv[3:])
    dataset = CustomDataset()
    dataset.load_data()
    asked = dataset.data[: options.num_prompts]
    began = time.perf_counter()
    with ThreadPoolExecutor(options.max_concurrency) as pool:
        answers = [*pool.map(lambda each: _ask(options, each), asked)]
    result = {key: [answer[key] for answer in answers] for key in answers[0]}
    result["duration"] = time.perf_counter() - began
    Path(options.result_dir, options.result_filename).write_text(json.dumps(result))


def _ask(options: argparse.Namespace, request: dict[str, Any]) -> dict[str, Any]:
    """Return what is told of one request, by the tool's names."""
    body = {
        "model": options.model,
        "messages": [{"role": "user", "content": request["prompt"]}],
        "max_completion_tokens": request["output_tokens"],
        "temperature": options.temperature,
        "ignore_eos": options.ignore_eos,
        "stream": True,
        "stream_options": {"include_usage": True},
        **json.loads(options.extra_body),
    }
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(aiohttp.TCPConnector(limit=options.max_concurrency).path)
    began = time.perf_counter()
    connection.request(
        "POST", options.endpoint, json.dumps(body), {"Content-Type": "application/json"}
    )
    times: list[float] = []
    usage = {"prompt_tokens": 0, "completion_tokens": 0}
    with connection.getresponse() as answer:
        for line in answer:
            if line.startswith(b"data: {"):
                chunk = json.loads(line[6:])
                usage = chunk.get("usage") or usage
                if any(choice["delta"].get("content") for choice in chunk["choices"]):
                    times.append(time.perf_counter())
    return {
        "start_times": began,
        "ttfts": times[0] - began if times else 0.0,
        "itls": [later - earlier for earlier, later in pairwise(times)],
        "input_lens": usage["prompt_tokens"],
        "output_lens": usage["completion_tokens"],
        "errors": "" if times else f"status {answer.status}",
    }
