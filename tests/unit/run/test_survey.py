"""The survey before a run, on this machine: what is read together, and what anew."""

import os
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyinfra import host
from pyinfra.api import Config, Inventory, QuoteString, State, StringCommand, operation
from pyinfra.api.connect import connect_all
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.operation import add_op
from pyinfra.api.operations import run_ops
from pyinfra.api.state import StateStage
from pyinfra.context import ctx_host, ctx_state
from pyinfra.facts.files import File

from sparkwright.common.facts import HostFact
from sparkwright.common.operations import foresee, notice
from sparkwright.run import connection as connections
from sparkwright.run import survey, survey_script
from sparkwright.run.connection import Asked, connection_of
from sparkwright.run.survey import Surveyor


class Text(HostFact[str]):
    """What is in a file; it fails where there is none."""

    default = str

    def command(self, path: str) -> str:
        return f"cat {path}"

    def parse(self, output: list[str]) -> str:
        return "\n".join(output)


class MomentaryText(Text):
    """The same, true for a moment."""

    momentary = True


@operation()
def has(path: Path, text: str, fact: type[Text] = Text) -> Generator[StringCommand]:
    """Have a file with a text."""
    found = host.get_fact(fact, path=str(path))
    notice(f"{path.name} has {found}")
    if found != text:
        yield StringCommand("printf %s", QuoteString(text), ">", QuoteString(str(path)))


@operation()
def has_both(one: Path, other: Path) -> Generator[StringCommand]:
    """Have two files with one text, the second read by what is in the first."""
    text = host.get_fact(Text, path=str(one))
    if host.get_fact(Text, path=str(other)) != text:
        yield StringCommand("cp", str(one), str(other))


@operation()
def foreseen(one: Path, other: Path) -> Generator[StringCommand]:
    """Do the same, and say before what will be read."""
    foresee(
        lambda: host.get_fact(Text, path=str(one)), lambda: host.get_fact(Text, path=str(other))
    )
    yield from has_both._inner(one, other)


@operation()
def asks_pyinfra(path: Path) -> Generator[StringCommand]:
    """Have a file with something in it, by a fact of pyinfra's."""
    if not host.get_fact(Text, path=str(path)) or host.get_fact(File, path=str(path)) is None:
        yield StringCommand("echo something >", QuoteString(str(path)))


@operation()
def waits(path: Path) -> Generator[StringCommand]:
    """Look until nothing has changed between two looks."""
    while host.get_fact(Text, path=str(path)) != host.get_fact(Text, path=str(path)):
        pass
    yield from ()


class Machine:
    """This machine as a host of a run with a survey; `commands` is what ran there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.commands: list[str] = []
        inventory = Inventory((["@local"], {}))
        self.state = State(inventory, Config(), check_for_changes=False)
        connect_all(self.state)
        self.host = inventory.get_host("@local")
        original: Callable[..., Any] = self.host.connector.run_shell_command

        def run(command: Any, **options: Any) -> Any:
            self.commands.append(command if isinstance(command, str) else command.get_raw_value())
            return original(command, **options)

        monkeypatch.setattr(self.host.connector, "run_shell_command", run)
        monkeypatch.setattr(connections, "target_of", lambda _: type("Alone", (), {"together": []}))
        connection_of(self.host)
        self.state.add_callback_handler(Surveyor())

    def add(self, operation: Callable[..., Any], *arguments: Any) -> Any:
        return add_op(self.state, operation, *arguments)[self.host]

    def run(self) -> list[str]:
        run_ops(self.state)
        return self.commands

    @contextmanager
    def deploy(self) -> Iterator[None]:
        """Run this block as a deploy whose operations are planned."""
        self.state.check_for_changes = True
        self.state.current_stage = StateStage.Prepare
        with ctx_state.use(self.state), ctx_host.use(self.host):
            yield


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_text(f"{path.name}\n")
    return paths


def test_a_run_that_changes_nothing_is_one_command(
    machine: Machine, files: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    done = [machine.add(has, path, path.name) for path in (*files, files[0])]
    assert len(machine.run()) == 1
    assert not any(each.did_change() for each in done)
    # A notice is shown once an operation.
    assert [caplog.text.count(f"{name} has {name}") for name in "abc"] == [2, 1, 1]


def test_a_plan_that_changes_nothing_is_one_command(machine: Machine, files: list[Path]) -> None:
    with machine.deploy(), survey.surveyed():
        with survey.surveyed():
            has(files[0], "a")
        has(files[1], "b", MomentaryText)
        assert machine.commands == []
    assert len(machine.commands) == 1
    # During a run, one of pyinfra's own facts is a command like those that change something.
    with machine.deploy(), survey.surveyed():
        asks_pyinfra(files[0])
        has(files[1], "b")
        has(files[2], "c")
    assert len(machine.commands) == 3


def test_a_plan_knows_what_will_change(machine: Machine, files: list[Path]) -> None:
    """Also after an operation that changes something; what the run itself reads, it reads anew."""
    with machine.deploy():
        before = has(files[2], "c")
        with survey.surveyed():
            first, second, same = has(files[0], "new"), has(files[1], "new"), has(files[2], "c")
        after = has(files[2], "other")
    planned = [each.will_change for each in (before, first, second, same, after)]
    assert planned == [False, True, True, False, True]
    counts = machine.state.get_meta_for_host(machine.host)
    assert (counts.ops_change, counts.ops_no_change) == (3, 2)
    # Those before and after the block are planned where they are called.
    assert len(machine.commands) == 2
    files[1].write_text("new")
    machine.state.current_stage = StateStage.Execute
    machine.run()
    done = [each.did_change() for each in (before, first, second, same, after)]
    assert done == [False, True, False, False, True]


def test_a_plan_ends_where_an_operation_raises(machine: Machine, files: list[Path]) -> None:
    def steps() -> None:
        with survey.surveyed():
            has(files[0].with_name("none"), "")
            has(files[0], "a")

    with machine.deploy(), pytest.raises(PyinfraError):
        steps()


def test_an_operation_looks_anew_after_a_change(machine: Machine, files: list[Path]) -> None:
    """The second finds what the first has written; in between, it was something else."""
    first = machine.add(has, files[0], "new")
    second = machine.add(has, files[0], "new")
    other = machine.add(has, files[1], "b")
    commands = machine.run()
    assert (first.did_change(), second.did_change(), other.did_change()) == (True, False, False)
    assert files[0].read_text() == "new"
    assert [each for each in commands if each.startswith("cat ")] == [
        f"cat {files[0]}",
        f"cat {files[1]}",
    ]


def test_an_operation_that_asks_again_reads_anew(machine: Machine, files: list[Path]) -> None:
    """It asks again because somebody else may have changed it."""
    machine.add(waits, files[0])
    commands = machine.run()
    assert commands[1:] == [f"cat {files[0]}"]


@pytest.mark.parametrize(("operation", "rounds"), [(foreseen, 1), (has_both, 2)])
def test_what_is_foreseen_is_read_in_the_first_round_and_else_in_a_second(
    machine: Machine, files: list[Path], operation: Callable[..., Any], rounds: int
) -> None:
    files[1].write_text("a\n")
    both, third = machine.add(operation, *files[:2]), machine.add(has, files[2], "c")
    assert len(machine.run()) == rounds
    assert not both.did_change()
    assert not third.did_change()


def test_a_fact_that_fails_fails_its_own_operation(
    machine: Machine, files: list[Path], caplog: pytest.LogCaptureFixture
) -> None:
    machine.add(has, files[0], "a")
    machine.add(has, files[0].with_name("none"), "")
    machine.add(has, files[1], "b")
    with pytest.raises(PyinfraError):
        machine.run()
    assert machine.commands[1:] == [f"cat {files[0].with_name('none')}"]
    assert "could not load fact" in caplog.text


def test_what_is_true_for_a_moment_is_asked_then(machine: Machine, files: list[Path]) -> None:
    machine.add(has, files[0], "a")
    machine.add(has, files[1], "b", MomentaryText)
    assert machine.run()[1:] == [f"cat {files[1]}"]


def test_what_changes_while_it_is_read_is_read_anew(machine: Machine, files: list[Path]) -> None:
    """An operation on the other Spark of a pair may change this one during its survey."""
    connection: Any = machine.host.connector
    original = connection._connector.run_shell_command

    def run(command: Any, **options: Any) -> Any:
        answer = original(command, **options)
        if options.get("_stdin"):
            files[0].write_text("new")
            connection.forget()
        return answer

    connection._connector.run_shell_command = run
    done = machine.add(has, files[0], "new")
    machine.run()
    assert not done.did_change()


def test_an_old_answer_does_not_serve(
    machine: Machine, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "FRESH", 0)
    machine.add(has, files[0], "a")
    assert machine.run()[1:] == [f"cat {files[0]}"]


def test_a_script_that_hangs_fails_or_is_none_has_no_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(survey_script, "_PATIENCE", 1)
    scripts = ["echo a", "printf half; sleep 60", "if", "exit 3", "cd /; echo b", "cat; echo c"]
    begun = time.monotonic()
    printed = subprocess.run(
        ["sh", "-s"],
        input=survey_script.survey_script(scripts, "@@m"),
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert time.monotonic() - begun < 30
    answers = survey_script.answers_of(scripts, printed.splitlines(), "@@m")
    found = {script: output.stdout_lines for script, (_, output) in answers}
    assert found == {"echo a": ["a"], "cd /; echo b": ["b"], "cat; echo c": ["c"]}
    assert not [*tmp_path.iterdir()]
    # Where it gets no folder, it runs nothing.
    done = subprocess.run(
        ["sh", "-s"],
        input=survey_script.survey_script(["echo a"], "@@m"),
        env={**os.environ, "TMPDIR": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(st.characters(codec="ascii", exclude_characters="\0")), min_size=1))
def test_an_answer_is_what_the_command_prints(texts: list[str]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        machine = Machine(monkeypatch)
        connection: Any = machine.host.connector
        commands = [StringCommand("printf %s", QuoteString(text)) for text in texts]
        direct = [connection.run_shell_command(each)[1].stdout_lines for each in commands]
        asked = [
            Asked(connection, str(number), each.get_raw_value(), {})
            for number, each in enumerate(commands)
        ]
        assert connection.read(asked) is True
        answers = [connection._answers[each.key][1][1].stdout_lines for each in asked]
    assert answers == direct
