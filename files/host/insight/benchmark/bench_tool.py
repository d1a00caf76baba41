"""Runs `vllm bench serve` in a container beside the engine's, as often as standard input says.

A line of input is {"arguments": […], "requests": [{"prompt", "output_tokens"}, …]}; one of output,
the tool's own result or {"error": "why"}. The tool connects to ports alone, so a second process
passes what it sends on to the engine's socket. The container's network has nothing else in it.
"""

import asyncio
import importlib.util
import json
import multiprocessing
import os
import socket
import sys
import tempfile
import traceback
from contextlib import suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

SOCKET = "/run/vllm/api.sock"


class _Row(dict[str, Any]):
    to_dict = dict.copy


class _Rows(list[_Row]):
    columns = ("prompt", "output_tokens")

    def __init__(self, path_or_buf: str, lines: bool) -> None:
        text = Path(path_or_buf).read_text("utf-8")
        super().__init__(_Row(json.loads(line)) for line in text.splitlines())

    def iterrows(self) -> Any:
        return enumerate(self)


def lend_pandas() -> None:
    """Supply the one function of pandas that the tool calls, where an image lacks the package.

    vLLM's own images do (vllm-project/vllm#40144).
    """
    if importlib.util.find_spec("pandas") is None:
        module = ModuleType("pandas")
        module.__spec__ = ModuleSpec("pandas", None)
        module.__dict__["read_json"] = _Rows
        sys.modules["pandas"] = module


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while part := await reader.read(1 << 16):
            writer.write(part)
            await writer.drain()
    writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        answers, engine = await asyncio.open_unix_connection(SOCKET)
        await asyncio.gather(_copy(reader, engine), _copy(answers, writer))
    except OSError:
        writer.close()


async def _relay(port: socket.socket) -> None:
    await (await asyncio.start_server(_pass_on, sock=port)).serve_forever()


def run(order: dict[str, Any], port: int) -> Any:
    """Return the result of one run."""
    from vllm.entrypoints.cli.main import main

    with tempfile.TemporaryDirectory() as folder:
        prompts, result = Path(folder, "prompts.jsonl"), Path(folder, "result.json")
        prompts.write_text("".join(f"{json.dumps(each)}\n" for each in order["requests"]), "utf-8")
        sys.argv = ["vllm", "bench", "serve", *order["arguments"]]
        sys.argv += ["--base-url", f"http://127.0.0.1:{port}", "--dataset-name", "custom"]
        sys.argv += ["--dataset-path", str(prompts), "--save-result", "--save-detailed"]
        sys.argv += ["--result-dir", folder, "--result-filename", result.name]
        try:
            main()
            return json.loads(result.read_text("utf-8"))
        except (Exception, SystemExit) as error:
            traceback.print_exc()
            return {"error": f"{type(error).__name__}: {error}"[:500]}


def work() -> None:
    """Do as the input says."""
    # What the tool prints is for the journal.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    port = socket.create_server(("127.0.0.1", 0))
    fork = multiprocessing.get_context("fork")
    fork.Process(target=lambda: asyncio.run(_relay(port)), daemon=True).start()
    lend_pandas()
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line), port.getsockname()[1])), file=answers, flush=True)


if __name__ == "__main__":
    work()
