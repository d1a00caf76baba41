"""What a person answers: Ctrl-C at any moment, yes and no at the question of a run."""

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
from tests.programs import ended, script

KEYS = "keys_command: [sh, -c, 'touch asked; exec sleep 900']\n"
# As OpenSSH's own, which ends with a status of its own.
SSH = "#!/bin/sh\ntrap 'kill $!; exit 255' INT\n: > asked\nsleep 900 & wait\n"
EXECUTED = "Interrupted. Nothing is lost: a download"
BEFORE = "Interrupted. No Spark was changed."
NO = "Nothing was changed on any Spark."
BOTH = pytest.mark.parametrize("words", [sparkwright("apply"), pyinfra("deploys/spark.py")])


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Machine]]:
    with machines(tmp_path_factory.mktemp("sparks"), "spark-a", "spark-b") as found:
        yield found


def interrupted(site: Site, words: Sequence[str], at: str = "") -> str:
    """Start a command, press Ctrl-C where it waits for minutes, and return all that it printed.

    It ends at once, with status 130.
    """
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


@pytest.fixture
def site(tmp_path: Path, running: dict[str, Machine]) -> Site:
    return Site(tmp_path, running, 2)


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("plan", "click"),
        ("plan", "sparkwright.cli.main"),
        ("plan", "pyinfra_cli"),
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


@BOTH
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


@pytest.mark.parametrize(
    "words", [sparkwright("apply"), pyinfra("deploys/spark.py"), sparkwright("status")]
)
def test_while_no_spark_answers(site: Site, words: list[str]) -> None:
    with nobody_answers(site) as port:
        site.write(port=port)
        said = interrupted(site, words)
    assert BEFORE in said
    assert "no answer" not in said


@BOTH
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


@pytest.fixture
def two(tmp_path: Path, running: dict[str, Machine]) -> Site:
    for machine in running.values():
        (machine.folder / "changed").unlink(missing_ok=True)
    return Site(tmp_path, running, 2)


def answered(site: Site, words: list[str], answer: str) -> tuple[int, str]:
    """Run a command whose person types this; return its status, and what it printed."""
    own = site.environment()
    done = ended(words, cwd=site.folder, env=own, input=answer, stderr=subprocess.STDOUT)
    assert "Traceback" not in done.stdout
    assert "Press enter" not in done.stdout
    assert done.returncode or "found no" not in done.stdout
    return done.returncode, done.stdout


def changed(site: Site) -> list[bool]:
    return [(machine.folder / "changed").exists() for machine in site.machines.values()]


@BOTH
@pytest.mark.parametrize("answer", ["Y\n", "what?\nyes\n"])
def test_yes_does_it(two: Site, words: list[str], answer: str) -> None:
    status, said = answered(two, words, answer)
    assert status == 0, said
    assert "Do this? [y/N]" in said
    assert changed(two) == [True, True]


@BOTH
@pytest.mark.parametrize("answer", ["no\n", "\n"])
def test_no_and_enter_change_nothing(two: Site, words: list[str], answer: str) -> None:
    status, said = answered(two, words, answer)
    assert status == 1
    assert f"{NO}\n" in said
    assert changed(two) == [False, False]


def test_no_names_the_files_that_stay(two: Site) -> None:
    two.write(where="file")
    status, said = answered(two, sparkwright("apply"), "n\n")
    assert status == 1
    assert f"{NO[:-1]}; on this machine stays what the next run uses: " in said
    assert "inventory/sparks.lock.yaml.\n" in said


@BOTH
def test_without_anybody_to_answer_it_names_the_option(two: Site, words: list[str]) -> None:
    status, said = answered(two, words, "")
    assert status == 1
    assert "found no terminal to ask on; expected one, or -y" in said
    assert changed(two) == [False, False]
    status, said = answered(two, [*words, "-y"], "")
    assert status == 0, said
    assert "[y/N]" not in said
    assert changed(two) == [True, True]


@BOTH
def test_no_question_where_nothing_would_change(two: Site, words: list[str]) -> None:
    two.write(where="done")
    status, said = answered(two, words, "")
    assert status == 0, said
    assert "[y/N]" not in said


@BOTH
def test_no_question_where_the_run_would_fail(two: Site, words: list[str]) -> None:
    two.write(where="refused")
    status, said = answered(two, words, "y\n")
    assert status == 1
    assert "Work: a run would fail here:" in said
    assert f"Stopped: the run would fail on spark-a and spark-b: see above. {NO}\n" in said
    assert "[y/N]" not in said
    assert "Starting operation" not in said
