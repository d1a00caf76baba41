"""The program that drives vLLM's own benchmark tool in the engine's container."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from host.benchmark.measure import Tool
from host.common.progress import JobError
from sparkwright.common.paths import HOST_FILES
from tests.clock import patience


def docker(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Let `docker` be a script."""
    path = folder / "docker"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 1", "it ended in the middle"),
        ("""read line; echo '{"error": "ValueError: no"}'""", "ValueError: no"),
        ("read line; echo OCI runtime exec failed", "OCI runtime exec failed"),
    ],
)
def test_a_tool_without_a_result(tmp_path, monkeypatch, script, said):
    docker(tmp_path, monkeypatch, script)
    with pytest.raises(JobError, match=r"journalctl -u benchmark") as caught:
        Tool("vllm-x").run([], [])
    assert said in str(caught.value) or "Broken pipe" in str(caught.value)


# What `vllm bench serve` is made of, as far as it is run here.
TOOL = {
    "benchmarks/datasets.py": "class CustomDataset: pass",
    "benchmarks/serve.py": """\
import types
ASYNC_REQUEST_FUNCS = {}
aiohttp = types.SimpleNamespace(UnixConnector=None)
""",
    "entrypoints/cli/main.py": """\
import sys
def main():
    print("Starting initial single prompt test run...", flush=True)
    words = dict(zip(sys.argv[1:], sys.argv[2:]))
    with open(f"{words['--result-dir']}/{words['--result-filename']}", "w") as file:
        file.write('{"duration": 1.5}')
""",
}


def test_what_the_tool_prints_is_no_answer(tmp_path):
    """It is shown in the journal; the answer is the only line that whoever asked gets."""
    for name, text in TOOL.items():
        path = tmp_path / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    command = [sys.executable, "-c", (HOST_FILES / "benchmark/bench_tool.py").read_text()]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, env={"PYTHONPATH": str(tmp_path)}, text=True, **pipes) as tool:
        print('{"arguments": [], "requests": [], "seconds": 0}', file=tool.stdin, flush=True)
        assert json.loads(tool.stdout.readline()) == {"duration": 1.5}
        rest, journal = tool.communicate(timeout=patience())
    assert rest == ""
    assert "Starting initial" in journal


def test_the_tool_ends_with_its_input():
    command = [sys.executable, "-c", (HOST_FILES / "benchmark/bench_tool.py").read_text()]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=patience(), check=False)
    assert done.returncode == 0
