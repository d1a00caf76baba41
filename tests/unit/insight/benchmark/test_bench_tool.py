"""The program that drives vLLM's own benchmark tool."""

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer

from sparkwright.common.paths import HOST_FILES
from tests.clock import patience

PROGRAM = (HOST_FILES / "insight/benchmark/bench_tool.py").read_text()
# Like `vllm bench serve`, it reads prompts by pandas, asks a port, prints, and writes a file.
TOOL = """\
import json, sys, urllib.request
def main():
    import pandas
    print("Starting initial single prompt test run...", flush=True)
    words = dict(zip(sys.argv[1:], sys.argv[2:]))
    rows = pandas.read_json(path_or_buf=words["--dataset-path"], lines=True)
    assert "prompt" in rows.columns
    prompts = [row.to_dict()["prompt"] for _, row in rows.iterrows()]
    said = urllib.request.urlopen(words["--base-url"] + "/health").read().decode()
    with open(f"{words['--result-dir']}/{words['--result-filename']}", "w") as file:
        json.dump({"prompts": prompts, "said": said}, file)
"""


class _Engine(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\nby the socket")

    def log_message(self, *_: object) -> None: ...

    def address_string(self) -> str:
        return "-"


def test_it_asks_the_engines_socket_and_answers_in_one_line(tmp_path: Path) -> None:
    """What the tool prints is for the journal; two runs need one process."""
    path = tmp_path / "vllm/entrypoints/cli/main.py"
    path.parent.mkdir(parents=True)
    path.write_text(TOOL)
    engine = UnixStreamServer(str(tmp_path / "api.sock"), _Engine)
    threading.Thread(target=engine.serve_forever, daemon=True).start()
    program = PROGRAM.replace("/run/vllm/api.sock", str(tmp_path / "api.sock"))
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, env={"PYTHONPATH": str(tmp_path)}, text=True, **pipes) as tool:  # type: ignore[call-overload]
        for prompts in (["a", "b\n"], ["c"]):
            asked = [{"prompt": each, "output_tokens": 1} for each in prompts]
            print(json.dumps({"arguments": [], "requests": asked}), file=tool.stdin, flush=True)
            answer = json.loads(tool.stdout.readline())
            assert answer == {"prompts": prompts, "said": "by the socket"}
        rest, journal = tool.communicate(timeout=patience())
    engine.shutdown()
    assert rest == ""
    assert journal.count("Starting initial") == 2


def test_it_ends_with_its_input() -> None:
    line = [sys.executable, "-c", PROGRAM]
    subprocess.run(line, stdin=subprocess.DEVNULL, timeout=patience(), check=True)
