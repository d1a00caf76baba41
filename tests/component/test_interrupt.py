"""Ctrl-C at any moment, with one Spark and with two: the command ends at once, with status 130.

Whatever a command waits for here would take a quarter of an hour.
"""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.clock import patience
from tests.component.servers import until
from tests.component.small_site import Site, pyinfra, sparkwright
from tests.component.sshd import Machine, machines
from tests.programs import script

KEYS = "keys_command: [sh, -c, 'touch asked; exec sleep 900']\n"
# As OpenSSH's own, which ends with a status of its own.
SSH = "#!/bin/sh\ntrap 'kill $!; exit 255' INT\n: > asked\nsleep 900 & wait\n"
EXECUTED = "Interrupted. Nothing is lost: a download"
BEFORE = "Interrupted. No Spark was changed."


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Machine]]:
    with machines(tmp_path_factory.mktemp("sparks"), "spark-a", "spark-b") as found:
        yield found


def interrupted(site: Site, words: Sequence[str], at: str = "") -> str:
    """Start a command, press Ctrl-C where it waits, and return all that it printed."""
    said = site.folder / "output"
    with (
        said.open("w") as output,
        subprocess.Popen(
            words,
            cwd=site.folder,
            env=site.environment(at),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            # As in a terminal: Ctrl-C is for all that the command has started, too.
            start_new_session=True,
        ) as process,
    ):
        try:
            until(lambda: site.reached() or "[y/N]" in said.read_text())
            os.killpg(process.pid, signal.SIGINT)
            status = process.wait(patience(60))
        finally:
            process.kill()
    assert status == 130, said.read_text()
    assert "Traceback" not in said.read_text()
    return said.read_text()


@pytest.fixture(params=[1, 2], ids=["one Spark", "two"])
def site(tmp_path: Path, running: dict[str, Machine], request: pytest.FixtureRequest) -> Site:
    return Site(tmp_path, running, request.param)


BOTH = [sparkwright("apply"), pyinfra("deploys/spark.py")]


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("plan", "click"),
        ("plan", "sparkwright.cli.main"),
        ("plan", "pyinfra_cli"),
        ("plan", "pyinfra_cli.cli"),
        ("deploys/spark.py", "pyinfra_cli.cli"),
        ("recipes list", "sparkwright.declared.recipe.loader"),
        ("keys list", "sparkwright.door.keys"),
        ("verify", "pytest"),
        ("verify", "sparkwright.verify.plugin"),
    ],
)
def test_while_a_command_is_imported(
    tmp_path: Path, running: dict[str, Machine], line: str, module: str
) -> None:
    site = Site(tmp_path, running, 1)
    words = pyinfra(line) if "deploys" in line else sparkwright(line)
    said = interrupted(site, words, module).strip()
    # Of what is printed while it reads its command line, pytest keeps all to itself.
    assert said == ("" if module == "sparkwright.verify.plugin" else "interrupted")


@pytest.mark.parametrize("words", BOTH)
@pytest.mark.parametrize(
    ("changes", "module"),
    [({}, "sparkwright.run.inventory.groups"), ({"more": KEYS}, ""), ({"where": "fact"}, "")],
    ids=["inventory", "keys", "plan"],
)
def test_while_it_reads_and_plans(
    site: Site, words: list[str], changes: dict[str, str], module: str
) -> None:
    site.write(**changes)
    assert BEFORE in interrupted(site, words, module)


@contextmanager
def nobody_answers(site: Site) -> Iterator[int]:
    """Have a port that takes connections, and is silent; one that has come is where to wait."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)

        def reached() -> bool:
            with suppress(BlockingIOError):
                server.accept()
                return True
            return False

        site.reached = reached  # type: ignore[method-assign]
        yield server.getsockname()[1]


@pytest.mark.parametrize("words", [*BOTH, sparkwright("status")])
def test_while_no_spark_answers(site: Site, words: list[str]) -> None:
    with nobody_answers(site) as port:
        site.write(port=port)
        said = interrupted(site, words)
    assert BEFORE in said
    assert "no answer" not in said


@pytest.mark.parametrize("words", BOTH)
def test_at_the_question(site: Site, words: list[str]) -> None:
    said = interrupted(site, words)
    assert BEFORE in said
    assert "Work" in said


@pytest.mark.parametrize("words", [sparkwright("apply -y"), pyinfra("deploys/spark.py -y")])
def test_while_an_operation_is_at_work(site: Site, words: list[str]) -> None:
    site.write(where="operation")
    said = interrupted(site, words)
    assert EXECUTED in said
    typed = words[2:] if "sparkwright" in words else ["pyinfra", *words[1:]]
    assert f"{' '.join(typed)}\n" in said
    # The Spark is free: the lease ended with the run.
    for machine in site.machines.values():
        lock = machine.folder / "run/lock"
        free = ["flock", "--nonblock", str(lock), "true"]
        until(lambda free=free: subprocess.run(free, check=False).returncode == 0)  # type: ignore[misc]


@pytest.mark.parametrize(
    "words", [sparkwright("status --watch 900"), pyinfra("deploys/status.py --data watch=900")]
)
def test_while_the_status_waits_for_its_next_look(site: Site, words: list[str]) -> None:
    output = site.folder / "output"
    site.reached = lambda: "Ctrl-C ends it" in output.read_text()  # type: ignore[method-assign]
    assert interrupted(site, words).count("Ctrl-C ends it") == 1


@pytest.mark.parametrize("line", ["logs -f", "keys list", "verify"])
def test_while_a_command_waits_for_a_program(
    tmp_path: Path, running: dict[str, Machine], line: str
) -> None:
    site = Site(tmp_path, running, 1)
    site.write(more=KEYS if line == "keys list" else "")
    script((tmp_path / "ssh"), SSH)
    said = interrupted(site, sparkwright(line)).strip()
    assert "interrupted" in said if line == "verify" else said == "interrupted"


def test_while_init_tries_a_machine(tmp_path: Path, running: dict[str, Machine]) -> None:
    site = Site(tmp_path, running, 1)
    # No site is made below another.
    (tmp_path / "inventory.py").unlink()
    with nobody_answers(site) as port:
        said = interrupted(site, sparkwright(f"init new --spark ann@127.0.0.1:{port}"))
    assert said.strip().endswith("interrupted")
    assert not (tmp_path / "new").exists()
