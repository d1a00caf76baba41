"""Ctrl-C at any moment, with one Spark and with two: the command ends at once, with status 130.

Whatever a command waits for here would take a quarter of an hour.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.clock import patience
from tests.component.servers import until
from tests.component.sshd import Machine, machines

PROJECT = Path(__file__).parents[2]
# Python imports it before anything else. The import of one module says that it is reached, and
# waits.
SITECUSTOMIZE = """
import os, sys, time
class Wait:
    def find_spec(self, name, path=None, target=None):
        if name == os.environ.get("WAIT_AT"):
            open(os.environ["REACHED"], "w").close()
            time.sleep(900)
sys.meta_path.insert(0, Wait())
"""
DEPLOY = """
from pyinfra import host
from pyinfra.api import FactBase, StringCommand, operation
from sparkwright.run.lease import hold_lease
from sparkwright.run.session import start_session

class Slow(FactBase):
    def command(self, word):
        return f'test {word} != {WHERE} || {{ touch "$MACHINE/asked"; sleep 900; }}'

@operation()
def work():
    yield StringCommand(Slow().command("operation"))

start_session()
hold_lease()
host.get_fact(Slow, word="fact")
work(name="Work")
work(name="Never")
"""
SLOW = 'touch "$(dirname "$0")/../asked"; exec sleep 900'
KEYS = "keys_command: [sh, -c, 'touch asked; exec sleep 900']\n"
# As OpenSSH's own, which ends with a status of its own.
SSH = "#!/bin/sh\ntrap 'exit 255' INT\n: > asked\nsleep 900 & wait\n"
EXECUTED = "Interrupted. Nothing is lost: a download"
BEFORE = "Interrupted. No Spark was changed."


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Machine]]:
    with machines(tmp_path_factory.mktemp("sparks"), "spark-a", "spark-b") as found:
        yield found


class Site:
    """A folder as `sparkwright init` writes one, whose deploy waits where it is told to."""

    def __init__(self, folder: Path, running: dict[str, Machine], sparks: int) -> None:
        self.folder = folder
        self.machines = dict([*running.items()][:sparks])
        for machine in self.machines.values():
            machine.reset()
        for name in ("config.py", "inventory.py", "deploys/status.py", "tests/verify"):
            target = folder / name
            target.parent.mkdir(exist_ok=True)
            copy = shutil.copytree if (PROJECT / name).is_dir() else shutil.copy
            copy(PROJECT / name, target)
        (folder / "inventory").mkdir()
        (folder / "python").mkdir()
        (folder / "python/sitecustomize.py").write_text(SITECUSTOMIZE)
        (folder / "known_hosts").touch()
        self.write()

    def write(self, where: str = "nowhere", more: str = "", port: int = 0) -> None:
        """Write what the site serves, and where its deploy waits."""
        keys = {
            "ssh_hostname": "127.0.0.1",
            "ssh_user": "ann",
            "ssh_key": next(iter(self.machines.values())).folder.parent / "user-key",
            "ssh_known_hosts_file": self.folder / "known_hosts",
            "hardware": "lab",
        }
        ports = {name: machine.port for name, machine in self.machines.items()}
        if port:
            ports[min(ports)] = port
        text = "".join(f"{key}: {value}, " for key, value in keys.items())
        sparks = "".join(
            f"  {name}: {{{text}ssh_port: {ports[name]}}}\n"
            for name in ports
        )
        own = "recipe: lab-tiny, trusts: [tool-parser-plugin]"
        replicas = "".join(f"  on-{name}: {{{own}, sparks: [{name}]}}\n" for name in self.machines)
        inventory = f"sparks:\n{sparks}replicas:\n{replicas}{more}"
        (self.folder / "inventory/sparks.yaml").write_text(inventory)
        (self.folder / "deploys/spark.py").write_text(f"WHERE = {where!r}\n{DEPLOY}")

    def reached(self) -> bool:
        """Whether what was started is where it waits."""
        asked = [machine.folder / "asked" for machine in self.machines.values()]
        own = [self.folder / "asked", self.folder / "reached"]
        return all(map(Path.exists, asked)) or any(map(Path.exists, own))

    def interrupted(self, words: Sequence[str], at: str = "") -> str:
        """Start a command, press Ctrl-C where it waits, and return all that it printed."""
        python = f"{self.folder / 'python'}:{PROJECT}"
        own = {"PYTHONPATH": python, "WAIT_AT": at, "REACHED": str(self.folder / "reached")}
        path = {"PATH": f"{self.folder}:{os.environ['PATH']}"}
        with subprocess.Popen(
            words,
            cwd=self.folder,
            env={**os.environ, **own, **path},
            stdin=subprocess.PIPE,
            stdout=(output := (self.folder / "output").open("w")),
            stderr=output,
            # As in a terminal: Ctrl-C is for all that the command has started, too.
            start_new_session=True,
        ) as process:
            said = self.folder / "output"
            until(lambda: self.reached() or "[y/N]" in said.read_text())
            os.killpg(process.pid, signal.SIGINT)
            try:
                status = process.wait(patience(60))
            finally:
                process.kill()
        assert status == 130, said.read_text()
        assert "Traceback" not in said.read_text()
        return said.read_text()


@pytest.fixture(params=[1, 2], ids=["one Spark", "two"])
def site(tmp_path: Path, running: dict[str, Machine], request: pytest.FixtureRequest) -> Site:
    return Site(tmp_path, running, request.param)


def sparkwright(line: str) -> list[str]:
    return [sys.executable, "-m", "sparkwright", *line.split()]


def pyinfra(line: str) -> list[str]:
    return [str(Path(sys.executable).with_name("pyinfra")), "inventory.py", *line.split()]


BOTH = [sparkwright("apply"), pyinfra("deploys/spark.py")]


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("plan", "click"),
        ("plan", "sparkwright.cli.main"),
        ("plan", "pyinfra_cli"),
        ("plan", "pyinfra_cli.cli"),
        ("recipes list", "sparkwright.recipe.loader"),
        ("keys list", "sparkwright.door.keys"),
        ("verify", "pytest"),
        ("verify", "sparkwright.verify.plugin"),
    ],
)
def test_while_a_command_is_imported(
    tmp_path: Path, running: dict[str, Machine], line: str, module: str
) -> None:
    site = Site(tmp_path, running, 1)
    assert site.interrupted(sparkwright(line), module).strip() == "interrupted"


@pytest.mark.parametrize("words", BOTH)
def test_while_the_inventory_is_loaded(site: Site, words: list[str]) -> None:
    assert BEFORE in site.interrupted(words, "sparkwright.inventory.groups")


@pytest.mark.parametrize("words", BOTH)
def test_while_the_keys_are_asked_for(site: Site, words: list[str]) -> None:
    site.write(more=KEYS)
    assert BEFORE in site.interrupted(words)


@pytest.mark.parametrize("words", [*BOTH, sparkwright("status")])
def test_while_no_spark_answers(site: Site, words: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        site.write(port=silent.getsockname()[1])
        silent.setblocking(False)

        def reached() -> bool:
            try:
                silent.accept()
            except BlockingIOError:
                return False
            return True

        site.reached = reached  # type: ignore[method-assign]
        said = site.interrupted(words)
    assert BEFORE in said
    assert "no answer" not in said


@pytest.mark.parametrize("words", BOTH)
def test_while_it_is_planned(site: Site, words: list[str]) -> None:
    site.write(where="fact")
    assert BEFORE in site.interrupted(words)


@pytest.mark.parametrize("words", BOTH)
def test_at_the_question(site: Site, words: list[str]) -> None:
    said = site.interrupted(words)
    assert BEFORE in said
    assert "Work" in said


@pytest.mark.parametrize("words", [sparkwright("apply -y"), pyinfra("deploys/spark.py -y")])
@pytest.mark.parametrize("order", [[], ["--serial"]])
def test_while_an_operation_is_at_work(site: Site, words: list[str], order: list[str]) -> None:
    if order and "sparkwright" in words:
        pytest.skip("an option of pyinfra")
    site.write(where="operation")
    if order:
        site.reached = lambda: any(  # type: ignore[method-assign]
            (machine.folder / "asked").exists() for machine in site.machines.values()
        )
    said = site.interrupted([*words, *order])
    assert EXECUTED in said
    typed = ["-m", *words[2:]] if "sparkwright" in words else ["pyinfra", *words[1:], *order]
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
    assert site.interrupted(words).count("Ctrl-C ends it") == 1


def test_while_a_log_is_followed(tmp_path: Path, running: dict[str, Machine]) -> None:
    site = Site(tmp_path, running, 1)
    (tmp_path / "ssh").write_text(SSH)
    (tmp_path / "ssh").chmod(0o755)
    assert site.interrupted(sparkwright("logs -f")).strip() == "interrupted"


def test_while_a_command_reads_keys(tmp_path: Path, running: dict[str, Machine]) -> None:
    site = Site(tmp_path, running, 1)
    site.write(more=KEYS)
    assert site.interrupted(sparkwright("keys list")).strip() == "interrupted"


def test_while_verify_waits_for_a_spark(tmp_path: Path, running: dict[str, Machine]) -> None:
    site = Site(tmp_path, running, 1)
    (tmp_path / "ssh").write_text(SSH)
    (tmp_path / "ssh").chmod(0o755)
    assert "interrupted" in site.interrupted(sparkwright("verify"))


@pytest.mark.parametrize("verb", ["init new --spark ann@127.0.0.1"])
def test_while_init_tries_a_machine(tmp_path: Path, running: dict[str, Machine], verb: str) -> None:
    site = Site(tmp_path, running, 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.setblocking(False)
        port = silent.getsockname()[1]

        def reached() -> bool:
            try:
                silent.accept()
            except BlockingIOError:
                return False
            return True

        site.reached = reached  # type: ignore[method-assign]
        assert "interrupted" in site.interrupted(sparkwright(f"{verb}:{port}"))
    assert not (tmp_path / "new").exists()
