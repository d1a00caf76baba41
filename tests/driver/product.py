"""The product's own command line, run on the lab's inventory."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clock import patience

PROJECT = Path(__file__).parents[2]
DEPLOY = "deploys/spark.py"
# `sparkwright rollout` on the lab's inventory.
ROLLOUT = (sys.executable, "-m", "sparkwright", "-i", "lab", "rollout")
TOKEN = "hf_lab_reader"
# The machine that runs pyinfra is in it.
LAN = "10.213.0.0/24"


@dataclass(frozen=True)
class Run:
    status: int
    output: str
    changed: frozenset[str]
    plan: frozenset[str]
    failed: frozenset[str]

    def succeeded(self) -> "Run":
        assert self.status == 0, self.output
        return self

    def says(self, *texts: str) -> "Run":
        """Return the run itself; fail with its output if that lacks one of some texts."""
        assert [text for text in texts if text not in self.output] == [], self.output
        return self

    def fails(self, *texts: str) -> "Run":
        assert self.status == 1, self.output
        return self.says(*texts)

    def refused(self, *texts: str) -> "Run":
        """Return the run itself, which must have failed before it changed anything, and say why."""
        assert self.changed == frozenset()
        return self.fails(*texts)


def here(*words: str | Path, **given: Any) -> "subprocess.CompletedProcess[str]":
    """Run a program, which may fail, in the project's folder, with nobody to answer it."""
    usual = {"cwd": PROJECT, "env": env(), "stdin": subprocess.DEVNULL, "check": False}
    usual |= {"text": True, "timeout": patience(900), "capture_output": "stdout" not in given}
    return subprocess.run(words, **usual | given)


def pyinfra(*words: str, token: str | None = TOKEN, **environment: str) -> Run:
    """Run pyinfra on the lab's inventory, for real but with `--dry`, and read its JSON."""
    real = [] if "--dry" in words else ["-y"]
    line = [*command("inventory/lab.py"), *words, *real, "--json"]
    process = here(*line, env=env(token, **environment))
    answer = json.loads(process.stdout) if process.stdout.startswith("{") else {}
    results = answer.get("results") or {"operations": []}
    return Run(
        status=process.returncode,
        output=process.stderr + process.stdout,
        changed=frozenset(op["name"] for op in results["operations"] if op["success"]),
        plan=frozenset(op["name"] for op in answer.get("plan", []) if op["hosts_with_change"]),
        failed=frozenset(op["name"] for op in results["operations"] if op["error"]),
    )


def remote_commands(*words: str) -> list[tuple[str, float]]:
    """Run pyinfra; return of each remote command and upload its operation and its seconds."""
    with tempfile.NamedTemporaryFile() as report:
        program = [sys.executable, "-m", "tests.benchmarks.counted", report.name]
        here(*program, "inventory/lab.py", *words, check=True)
        return [tuple(each) for each in json.loads(Path(report.name).read_text())]


def rollout(*words: str) -> "subprocess.CompletedProcess[str]":
    together = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return here(*ROLLOUT, *words, "-y", **together)


@contextmanager
def background(
    *words: str, program: Sequence[str] = (), **environment: str
) -> Iterator["subprocess.Popen[str]"]:
    """Run pyinfra, or another program, beside the test; its output can be read, and it is ended."""
    with subprocess.Popen(
        [*(program or command("inventory/lab.py")), *words, "-y"],
        cwd=PROJECT,
        env=env(**environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as run:
        try:
            yield run
        finally:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)


def killed_at(text: str, *words: str, program: Sequence[str] = ()) -> None:
    """Run a program until a line of its output holds `text`; kill it, and what it started."""
    with background(*words, program=program) as run:
        assert run.stdout
        found = any(text in line for line in run.stdout)
    assert found, f"the run ended without a word of {text!r}"


def verification() -> str:
    verify = here(
        *(sys.executable, "-m", "pytest", "tests/verify", "--inventory", "inventory/lab.py")
    )
    assert verify.returncode == 0, verify.stdout
    return verify.stdout


def command(inventory: str) -> list[str]:
    return [str(Path(sys.executable).with_name("pyinfra")), inventory]


def env(token: str | None = TOKEN, **environment: str) -> dict[str, str]:
    """Return an environment with this token, or none, and nobody's logins."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    if token:
        environment["HF_TOKEN"] = token
    return {**inherited, "HF_HOME": "/nonexistent", "DOCKER_CONFIG": "/nonexistent", **environment}
