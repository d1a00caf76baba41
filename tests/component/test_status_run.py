"""The status of a fleet, by pyinfra's own command line."""

import json
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from sparkwright.run.failures import LOOK_PATIENCE
from tests import forked
from tests.clock import patience
from tests.component.servers import QuietHandler, serving, until
from tests.component.socket_server import SocketServer
from tests.makers.status import COUNTERS, RELEASE
from tests.programs import script

PROJECT = Path(__file__).parents[2]


class FakeEngine(QuietHandler):
    """Writes 1000 tokens between two looks."""

    looks = count()

    def do_GET(self) -> None:
        text = COUNTERS.format(read="0.0", written=1000.0 * next(self.looks))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"# HELP vllm:x of no concern\nhttp_requests_total 5.0\n{text}\n".encode())


UNITS = f"""\
Id=vllm@{RELEASE}.service
ActiveState=active
NRestarts=2
NeedDaemonReload=no
Job=
StatusText=serving
ActiveEnterTimestamp=@1795240000

Id=vllm@lab-tiny-99999999.service
ActiveState=activating
NRestarts=0
NeedDaemonReload=no
Job=17
StatusText=starting the engine
ActiveEnterTimestamp="""
# What nvidia-smi says of the fields that files/host/state/gpu.py asks for.
GB10 = "NVIDIA GB10, 580.173.02, [N/A], [N/A], [N/A], 2405, 61.42, 67, 96, 0x0"
STAND_INS = {
    "sudo": '[ "$1" = -n ] && shift\nexec "$@"',
    "systemctl": f"""\
case "$*" in
  "show "*) cat <<'END'
{UNITS}
END
  ;;
  *) echo active;;
esac""",
    "nvidia-smi": f"echo '{GB10}'",
}

# One Spark is this machine; the next has nothing that listens; further ones listen, and are silent.
INVENTORY = """
from pyinfra import config, state
from sparkwright.run.failures import expect_silence as _expect_silence

_chat = {"spark": "spark-a", "replica": "chat", "recipe": "lab-tiny", "rank": 0}
_gone = {"spark": "spark-b", "replica": "batch", "recipe": "lab-tiny", "rank": 0}
_gone |= {"ssh_hostname": "127.0.0.1", "ssh_port": 1}
sparks = [("@local", {"root": ROOT, **_chat}), ("spark-b", {"root": ROOT, **_gone})]
_silent = {**_gone, "root": ROOT, "ssh_port": SILENT}
sparks += [(f"silent{n}", {**_silent, "spark": f"silent{n}"}) for n in range(SPARKS - 2)]
sparks = sparks[:SPARKS]
# As sparkwright/run/inventory/groups.py does it for the status.
config.PARALLEL = len(sparks)
_expect_silence(state, sparks, "sparkwright.insight.status.deploy")
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """A Spark's root folder, an engine that answers, and stand-ins on the PATH."""
    release = tmp_path / "root" / "releases" / RELEASE
    release.mkdir(parents=True)
    (tmp_path / "root" / "current").symlink_to(f"releases/{RELEASE}")
    (tmp_path / "bin").mkdir()
    for name, text in STAND_INS.items():
        program = tmp_path / "bin" / name
        script(program, f"#!/bin/sh\n{text}\n")
    (release / "release.json").write_text(json.dumps({"recipe": "lab-tiny"}, indent=2) + "\n")
    with serving(SocketServer(tmp_path / "root", RELEASE, FakeEngine)):
        yield tmp_path


def command(
    project: Path, *words: str, sparks: int = 2, silent: int = 1
) -> tuple[list[str], dict[str, Any]]:
    """Return the words of a run of pyinfra, and what it is run with."""
    inventory = project / "hosts.py"
    values = f"ROOT = {str(project / 'root')!r}\nSPARKS, SILENT = {sparks}, {silent}"
    inventory.write_text(f"{values}\n{INVENTORY}")
    environment = os.environ | {"PATH": f"{project / 'bin'}:{os.environ['PATH']}", "TZ": "UTC"}
    return [str(inventory), "deploys/status.py", *words], {"cwd": PROJECT, "env": environment}


def status(
    project: Path, *words: str, code: int = 1, **given: int
) -> "subprocess.CompletedProcess[str]":
    line, settings = command(project, *words, **given)
    done = forked.run(line, **settings)
    assert done.returncode == code, done.stderr
    return done


def test_an_unreachable_spark_is_a_row(project: Path) -> None:
    done = status(project)
    head, a, b, *rest = done.stdout.splitlines()
    assert head.startswith("spark    replica")
    assert re.search(r"spark-a +chat +lab-tiny +0a1b2c3d +21 Nov 05:46 +[1-9]\d* +4\+2 ", a)
    assert re.search(r"spark-b +batch +lab-tiny +- +no answer", b)
    assert rest == [
        "spark-a: vllm@lab-tiny-99999999 runs as well",
        "spark-a: the engine was started again 2 times; "
        "pyinfra inventory.py deploys/doctor.py tells why",
        "spark-b: it refuses the connection: is it on and booted, and are ssh_hostname and "
        "ssh_port right? (Could not connect (Connection refused: port 1 of 127.0.0.1))",
    ]
    assert "Press enter" not in done.stderr


def test_nobody_waits_for_the_slow_and_the_dead(project: Path) -> None:
    """64 Sparks: one whose nvidia-smi hangs, one that refuses, 62 that take a connection."""
    smi = project / "bin/nvidia-smi"
    smi.write_text("#!/bin/sh\nexec sleep 60\n")
    with socket.create_server(("127.0.0.1", 0), backlog=100) as silent:
        seconds = []
        for sparks in (1, 64):
            begun = time.monotonic()
            done = status(project, sparks=sparks, silent=silent.getsockname()[1])
            seconds.append(time.monotonic() - begun)
    rows = done.stdout.splitlines()[1:65]
    assert re.search(r"spark-a +chat +lab-tiny +- +slow", rows[0])
    assert all(re.search(r" +batch +lab-tiny +- +no answer", row) for row in rows[1:])
    assert "spark-a: it took the login, but gave no answer within 5 s" in done.stdout
    # All of them cost what one does: the patience with a login, and less than another.
    alone, together = seconds
    assert together < alone + 2 * LOOK_PATIENCE


def test_one_run_reads_all_and_tells_machines(project: Path) -> None:
    file = project / "status.json"
    done = status(project, "-y", "--data", f"json={file}", sparks=1, code=0)
    assert done.stdout.startswith("spark ")
    (spark,) = json.loads(file.read_text())["sparks"]
    assert (spark["release"], spark["door"], spark["requests_waiting"]) == (RELEASE, "active", 2)


def test_it_goes_on_until_somebody_ends_it(project: Path) -> None:
    line, settings = command(project, "--data", "watch=1")
    # Nobody is there to answer.
    given, pipe = subprocess.DEVNULL, subprocess.PIPE
    with subprocess.Popen(
        [forked.PYINFRA, *line], stdin=given, stdout=pipe, stderr=pipe, text=True, **settings
    ) as watching:
        assert watching.stdout is not None
        looks = (line for line in watching.stdout if "Ctrl-C ends it" in line)
        assert next(looks)
        # A Spark that is gone costs a try each time, and no more.
        assert next(looks)
        # While it prints, pyinfra's own word would meet its.
        until(lambda: sleeps(watching.pid))
        watching.send_signal(signal.SIGINT)
        assert watching.wait(timeout=patience()) == 130


def sleeps(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("S")
