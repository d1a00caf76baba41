"""The reading of the container runtime where Docker does not answer, by a shell."""

import os
import subprocess
from pathlib import Path

import pytest

from sparkwright.runtime.facts import ContainerRuntime

SCRIPT = ContainerRuntime().command("http://x", "/nonexistent")


def read(folder: Path, docker: str, systemctl: int) -> subprocess.CompletedProcess[str]:
    for name, body in (("docker", docker), ("systemctl", f"exit {systemctl}")):
        program = folder / name
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
    path = f"{folder}:{os.environ['PATH']}"
    return subprocess.run(
        ["sh", "-c", SCRIPT], env={"PATH": path}, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("docker", ["exit 1", '[ "$1" = info ] && echo 28.1', "[ $1 = ps ]"])
def test_a_docker_that_runs_and_does_not_answer_is_no_docker_without_containers(
    tmp_path: Path, docker: str
) -> None:
    found = read(tmp_path, docker, systemctl=0)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr == "Docker runs, but does not answer: journalctl -u docker\n"


def test_a_docker_that_does_not_run_has_no_containers(tmp_path: Path) -> None:
    found = read(tmp_path, "exit 1", systemctl=3)
    state = ContainerRuntime().process(found.stdout.splitlines())
    assert (found.returncode, state.runtimes, state.containers) == (0, (), ())


def test_the_runtimes_and_containers_of_a_docker_that_answers(tmp_path: Path) -> None:
    info, running = r"printf '1\n2\n3\n4\nnvidia runc\n'", r"printf '1\tx\n2\ty\n'"
    answers = f"case $1 in info) {info} ;; *) {running} ;; esac"
    state = ContainerRuntime().process(read(tmp_path, answers, 0).stdout.splitlines())
    assert (state.runtimes, state.containers) == (("nvidia", "runc"), ("x", "y"))
