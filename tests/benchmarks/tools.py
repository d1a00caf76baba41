"""The cost of a tool for the machine that it runs on, and the check that it changed nothing."""

import json
import os
import platform
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median

from tests.driver.product import PROJECT, env
from tests.lab.shard import RESULTS

# What a shard's runs leave for the page.
FIGURES = RESULTS / "benchmarks"
# Ansible and Mitogen, with all that they need.
REQUIREMENTS = Path(__file__).with_name("requirements.txt")

# A row of pyinfra's results: operation, hosts, success, error, no change.
_ROW = re.compile(r"^ {4}(\S.*?) {2,}(\d+) +(\S+) +(\S+) +(\S+) *$", re.MULTILINE)
# A row of Ansible's recap.
_RECAP = re.compile(r"^(\S+) +: ((?:\w+=\d+ *)+)$", re.MULTILINE)


class ToolError(Exception):
    """A tool did not do what is measured; the text says what it did."""


@dataclass(frozen=True)
class Cost:
    """Of a command and all that it started; `memory` is the most bytes of one process."""

    seconds: float
    cpu: float
    memory: int


def measured(
    words: Sequence[str], variables: Mapping[str, str] | None = None, folder: Path = PROJECT
) -> tuple[Cost, str]:
    with tempfile.TemporaryFile("w+") as output:
        begun = time.monotonic()
        process = subprocess.Popen(
            words,
            cwd=folder,
            # As on a person's machine, where the second run finds what the first has compiled.
            env=env(**{**(variables or {}), "PYTHONDONTWRITEBYTECODE": ""}),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read()
    if process.returncode:
        raise ToolError(f"{' '.join(words)}: exit status {process.returncode}\n{text}")
    return Cost(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024), text


def typical(costs: Sequence[Cost]) -> Cost:
    return Cost(
        median(cost.seconds for cost in costs),
        median(cost.cpu for cost in costs),
        max(cost.memory for cost in costs),
    )


def check_unchanged(output: str, hosts: int) -> None:
    rows = _ROW.findall(output.rpartition("--> Results:")[2])
    if not rows:
        raise ToolError(f"pyinfra printed no results:\n{output}")
    for name, *counts in rows:
        if name.strip() != "Grand total" and counts != [str(hosts), "-", "-", str(hosts)]:
            raise ToolError(f"pyinfra, of {hosts} hosts: {name.strip()}: {' '.join(counts)}")


def check_recap(output: str, tasks: int) -> None:
    rows = _RECAP.findall(output.rpartition("PLAY RECAP")[2])
    if len(rows) != 1:
        raise ToolError(f"Ansible printed no recap of one host:\n{output}")
    ((host, row),) = rows
    counts = {name: int(count) for name, count in re.findall(r"(\w+)=(\d+)", row)}
    if counts.pop("ok") != tasks or any(counts.values()):
        changed = re.findall(
            r"^TASK \[(.*?)\].*\n(?:ok.*\n)*(?:changed|fatal|failed).*", output, re.M
        )
        raise ToolError(f"Ansible, of {tasks} tasks on {host}: {row.strip()}; {', '.join(changed)}")


def record(name: str, figures: object) -> None:
    FIGURES.mkdir(parents=True, exist_ok=True)
    (FIGURES / f"{name}.json").write_text(json.dumps(figures, indent=2) + "\n")


def machine() -> dict[str, str]:
    """Return what the figures depend on: the machine, and the versions of what runs on it."""
    cpus = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    ssh = subprocess.run(["ssh", "-V"], capture_output=True, text=True, check=True).stderr
    pins = re.findall(r"^([\w-]+)==(\S+)", REQUIREMENTS.read_text(), re.MULTILINE)
    return {
        "processor": f"{os.cpu_count()} cores of {cpus[0] if cpus else platform.machine()}",
        "memory": f"{memory:.0f} GiB",
        "kernel": ".".join(platform.release().split(".")[:2]),
        "Python": platform.python_version(),
        "pyinfra": version("pyinfra"),
        "SSH": ssh.strip(),
        **{name: pin for name, pin in pins if name in ("ansible-core", "mitogen")},
    }
