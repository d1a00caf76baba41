"""The survey of a Spark: what the operations of a run read there, in one command before the first.

pyinfra reads a fact when an operation asks for it, by a command of its own: a run that changes
nothing was twenty round trips. Here each operation is asked for its first command, as pyinfra does
to predict a change, and the facts that it asks for on the way are read together. Later, it gets
these answers as long as nothing has changed: the first other command on a Spark of the replica ends
that, and so does a minute; to an operation each answer serves once. The plan of a run is made in
the same way.
"""

import secrets
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import gevent
from pyinfra import context, host
from pyinfra.api import Host, State, StringCommand
from pyinfra.api.state import BaseStateCallback
from pyinfra.connectors.util import CommandOutput, OutputLine

from sparkwright.common.host_output import SHARED
from sparkwright.common.operations import AskedError, is_surveying, planning, surveying
from sparkwright.run.failures import watch_connection
from sparkwright.run.target import target_of

# Rounds of a survey: an operation may ask for a second fact by what it has of a first.
_ROUNDS = 2
# Seconds for which an answer serves: an operation may wait for one that takes hours elsewhere.
FRESH = 60
# Seconds for one script of a survey; the fact of one that hangs is asked for by itself.
_PATIENCE = 30


class Surveyor(BaseStateCallback):
    """Surveys each Spark before its first operation."""

    def __init__(self) -> None:
        self._surveyed: set[Host] = set()

    def operation_host_start(self, state: State, host: Host, op_hash: str) -> None:  # type: ignore[override]
        """Take the survey, in the part of the run that is this host's own."""
        if host not in self._surveyed and isinstance(host.connector, SurveyedConnection):
            self._surveyed.add(host)
            _survey(state, host)


# The parts of runs, one a host, whose operations are planned once all of them are known.
_collecting: set[object] = set()


@contextmanager
def surveyed() -> Iterator[None]:
    """Have the current host surveyed before the operations of this block are planned, and run."""
    part = gevent.getcurrent()
    if part in _collecting:
        yield
        return
    watch_connection()
    run: Any = context.state
    own: Any = run.inventory.get_host(host.name)
    if not isinstance(own.connector, SurveyedConnection):
        own.connector = SurveyedConnection(own)
    if not any(isinstance(each, Surveyor) for each in run.callback_handlers):
        run.add_callback_handler(Surveyor())
    # With it, pyinfra plans each operation where it is called.
    run.should_check_for_changes = lambda: (
        run.check_for_changes and gevent.getcurrent() not in _collecting
    )
    _collecting.add(part)
    try:
        yield
    finally:
        _collecting.discard(part)
    if run.should_check_for_changes():
        _plan(run, own)


def _plan(run: State, own: Host) -> None:
    """Predict of each operation whether it changes something, as pyinfra does."""
    _survey(run, own)
    counts = run.get_meta_for_host(own)
    for op_hash in own.op_hash_order:
        operation = run.get_op_data_for_host(own, op_hash)
        # pyinfra has planned those before the block.
        if operation.operation_meta._maybe_is_change is None:
            commands: Any = operation.command_generator()
            will_change = next(commands, None) is not None
            commands.close()
            operation.operation_meta._maybe_is_change = will_change
            counts.ops_change += will_change
            counts.ops_no_change -= will_change


# What the operations of a host ask for while a survey asks them, by the part of the run.
_asking: dict[object, list["_Asked"]] = {}


@dataclass(frozen=True)
class _Asked:
    """A fact that an operation has asked for.

    Attributes:
        connection: of the Spark that has the answer.
        key: of the answer.
        script: what reads it.
        options: pyinfra's, for the command.
    """

    connection: "SurveyedConnection"
    key: str
    script: str
    options: dict[str, Any] = field(compare=False)


def _survey(run: State, own: Host) -> None:
    """Read what the operations of a host ask for, of this Spark and of the other one of its pair.

    A command that fails brings no answers: the fact itself is asked for then, and says why. So is a
    Spark that is lost noticed, and said to be, by the operation that comes next.
    """
    tried: set[_Asked] = set()
    for _ in range(_ROUNDS):
        new = dict.fromkeys(each for each in _asked(run, own) if each not in tried)
        tried.update(new)
        readers = [
            gevent.spawn(each.read, [one for one in new if one.connection is each])
            for each in {one.connection for one in new}
        ]
        gevent.joinall(readers)
        if not any(reader.value for reader in readers):
            return


def _asked(run: State, own: Host) -> list[_Asked]:
    """Return the facts that the operations of a host ask for next."""
    part = gevent.getcurrent()
    asked = _asking[part] = []
    with surveying():
        for op_hash in own.op_hash_order if planning() else run.get_op_order():
            if op_hash not in run.ops[own]:
                continue
            commands: Any = run.get_op_data_for_host(own, op_hash).command_generator()
            try:
                if next(commands, None) is not None and not planning():
                    # It changes something: what follows reads anew.
                    break
            except (AskedError, Exception):
                # It has asked for a fact; or it raises the same when it runs.
                continue
            finally:
                commands.close()
    del _asking[part]
    return asked


class SurveyedConnection:
    """A pyinfra connector that has the answers of a survey.

    Attributes:
        fact: "surveyed" or "momentary" where the next command is a fact's.
    """

    def __init__(self, spark: Host) -> None:
        self.fact = ""
        self._spark = spark
        self._connector = spark.connector
        # By key: when it was read, and what it was.
        self._answers: dict[str, tuple[float, tuple[bool, CommandOutput]]] = {}
        self._served: set[tuple[str, str | None, str]] = set()
        self._changes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connector, name)

    def run_shell_command(self, command: Any, **options: Any) -> tuple[bool, CommandOutput]:
        """Answer a fact by the survey, or run a command."""
        fact, self.fact = self.fact, ""
        key = _key(command, options)
        taken, answer = self._answers.get(key, (0.0, None))
        if is_surveying():
            if fact == "surveyed" or (fact and planning()):
                if answer:
                    return answer
                _asking[gevent.getcurrent()].append(_Asked(self, key, _raw(command), options))
            raise AskedError
        # A plan changes nothing; pyinfra's own facts are no HostFact.
        if not (fact or planning()):
            self._change()
        elif fact and answer and time.monotonic() - taken < FRESH:
            # Who asks again asks because it may have changed.
            asker = (host.name, host.current_op_hash, key)
            if asker not in self._served:
                self._served.add(asker)
                return answer
        result: tuple[bool, CommandOutput] = self._connector.run_shell_command(command, **options)
        return result

    def put_file(self, *arguments: Any, **options: Any) -> bool:
        """Upload a file."""
        self._change()
        return bool(self._connector.put_file(*arguments, **options))

    def forget(self) -> None:
        """Have every fact read anew, also what is being read now."""
        self._answers.clear()
        self._served.clear()
        self._changes += 1

    def read(self, asked: Sequence[_Asked]) -> bool:
        """Run the commands of facts in one; return whether it brought answers."""
        options = asked[0].options
        alike = {each.key: each.script for each in asked if each.options == options}
        mark, before = f"@@{secrets.token_hex(8)}", self._changes
        with suppress(Exception):
            # By standard input: an argument has 128 KiB at most.
            script = survey_script([*alike.values()], mark)
            _, output = self._connector.run_shell_command(
                StringCommand("sh -s"), **options | {"_stdin": script}
            )
            answers = dict(_answers(list(alike), output.stdout_lines, mark))
            taken = time.monotonic()
            if before == self._changes:
                self._answers.update({key: (taken, answer) for key, answer in answers.items()})
                return bool(answers)
        return False

    def _change(self) -> None:
        for each in (self._spark, *target_of(self._spark).together):
            if isinstance(each.connector, SurveyedConnection):
                each.connector.forget()


def survey_script(scripts: Sequence[str], mark: str) -> str:
    """Return the POSIX shell script that runs others side by side, and prints their outputs.

    Before each output stands a line with the mark and the script's number; after it, if the script
    has ended in time, one with its exit status as well.
    """
    begun = "".join(
        f"{{ echo '{mark} {number}'; ( eval {shlex.quote(text)} ) </dev/null 2>/dev/null\n"
        # The mark is on a line of its own, also where an output does not end with one.
        f"printf '\\n{mark} {number} %s\\n' $?; }} >\"${SHARED}/{number}\" &\n"
        for number, text in enumerate(scripts)
    )
    outputs = " ".join(f'"${SHARED}/{number}"' for number in range(len(scripts)))
    # One shell for all of them: each by a shell and a timeout of its own took a tenth of the time.
    return f"""{SHARED}=$(mktemp -d) || exit
export {SHARED}
trap 'rm -rf "${SHARED}"' EXIT
timeout {_PATIENCE} sh -s <<'{mark}'
{begun}wait
{mark}
cat {outputs}
"""


def _raw(command: Any) -> str:
    return command if isinstance(command, str) else str(command.get_raw_value())


def _key(command: Any, options: Any) -> str:
    # A run has none of its plan's answers: what is true for a moment is among them.
    return f"{planning()} {_raw(command)}\n{sorted(options.items(), key=str)}"


def _answers(
    keys: Sequence[str], lines: Sequence[str], mark: str
) -> Iterator[tuple[str, tuple[bool, CommandOutput]]]:
    """Yield the answers of those that have succeeded."""
    own: list[str] = []
    for line in lines:
        match line.split() if line.startswith(f"{mark} ") else ():
            case [_, _]:
                own = []
            case [_, number, status]:
                output = own[:-1] if own and not own[-1] else own
                if status == "0":
                    said = CommandOutput([OutputLine("stdout", each) for each in output])
                    yield keys[int(number)], (True, said)
                own = []
            case _:
                own.append(line)
