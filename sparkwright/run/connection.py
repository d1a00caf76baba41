"""The connection to a Spark of a run: it has the answers of a survey, and notices a lost Spark."""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gevent
from gevent.lock import RLock
from pyinfra import host, state
from pyinfra.api import Host, StringCommand
from pyinfra.connectors.util import CommandOutput

from sparkwright.common.operations import AskedError, is_surveying, planning
from sparkwright.run.failures import lost_error
from sparkwright.run.survey_script import answers_of, survey_script
from sparkwright.run.target import target_of

# Seconds for which an answer serves: an operation may wait for one that takes hours elsewhere.
FRESH = 60
# Seconds that a connection may take to end after a command has noticed it: each failed command
# waits for so long.
_ENDING = 0.2

Answer = tuple[bool, CommandOutput]


@dataclass(frozen=True)
class Asked:
    """A fact that an operation asks for: the Spark that has the answer, its key, and its script."""

    connection: "SparkConnection"
    key: str
    script: str
    options: dict[str, Any] = field(compare=False)


# The facts that the operations of a host ask for during a survey, by the part of the run.
asking: dict[object, list[Asked]] = {}


def connection_of(spark: Host) -> "SparkConnection":
    """Return the connection to a Spark; from the first call on, pyinfra uses it as well."""
    if not isinstance(spark.connector, SparkConnection):
        spark.connector = SparkConnection(spark, spark.connector)  # type: ignore[assignment]
    return spark.connector  # type: ignore[return-value]


def watch_connection() -> None:
    """Have the run notice when the current host is lost."""
    # `host` itself stands for whichever host is current.
    connection_of(state.inventory.get_host(host.name))


class SparkConnection:
    """A pyinfra connector that serves facts from a survey, and tells a lost Spark from a failure.

    pyinfra knows only failed commands: a power cut during an operation would show as a failure of
    whatever command or upload was running, with tracebacks.

    Attributes:
        fact: "surveyed" or "momentary" where the next command is a fact's.
        is_read: The next command only reads.
        reading: One reading at a time: the second has the answers of the first.
        expected: What the steps of the run will ask for.
        changes: How many commands may have changed the replica.
    """

    def __init__(self, spark: Host, connector: Any) -> None:
        self.fact = ""
        self.is_read = False
        self.reading = RLock()
        self.expected: list[Callable[[], Iterable[Any]]] = []
        self.changes = 0
        self._expecting = {True, False}
        self._lines: dict[str, tuple[float, str]] = {}
        self._spark = spark
        self._connector = connector
        # By key: when it was read, and what it was.
        self._answers: dict[str, tuple[float, Answer]] = {}
        self._served: set[tuple[str, str | None, str]] = set()

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._connector, name)
        return partial(self._call, attribute) if name == "get_file" else attribute

    def run_shell_command(self, command: Any, **options: Any) -> Answer:
        """Answer a fact by the survey, or run a command."""
        if self.is_read:
            self.is_read = False
            read: Answer = self._call(self._connector.run_shell_command, command, **options)
            return read
        fact, self.fact = self.fact, ""
        key = _key(command, options)
        taken, answer = self._answers.get(key, (0.0, None))
        if is_surveying():
            if fact == "surveyed" or (fact and planning()):
                if answer:
                    return answer
                asking[gevent.getcurrent()].append(Asked(self, key, _raw(command), options))
            raise AskedError
        # A plan changes nothing; pyinfra's own facts are no HostFact.
        if not (fact or planning()):
            done: Answer = self._changing(self._connector.run_shell_command, command, **options)
            return done
        if fact and answer and time.monotonic() - taken < FRESH:
            # Who asks again asks because it may have changed.
            asker = (host.name, host.current_op_hash, key)
            if asker not in self._served:
                self._served.add(asker)
                return answer
        result: Answer = self._call(self._connector.run_shell_command, command, **options)
        return result

    def put_file(self, *arguments: Any, **options: Any) -> bool:
        """Upload a file."""
        return bool(self._changing(self._connector.put_file, *arguments, **options))

    def read(self, asked: Sequence[Asked]) -> bool:
        """Run the commands of facts in one; return whether it brought answers."""
        options = asked[0].options
        alike = {each.key: each.script for each in asked if each.options == options}
        mark, before = f"@@{secrets.token_hex(8)}", self.changes
        with suppress(Exception):
            # By standard input: an argument has 128 KiB at most.
            script = survey_script([*alike.values()], mark)
            _, output = self._call(
                self._connector.run_shell_command,
                StringCommand("sh -s"),
                **options | {"_stdin": script},
            )
            answers = dict(answers_of(list(alike), output.stdout_lines, mark))
            taken = time.monotonic()
            if before == self.changes:
                self._answers.update({key: (taken, answer) for key, answer in answers.items()})
                return bool(answers)
        return False

    def known(self, key: str) -> str | None:
        """Return what a Spark has answered to an ask, unless that may have changed since."""
        taken, line = self._lines.get(f"{planning()} {key}", (0.0, ""))
        return line if line and time.monotonic() - taken < FRESH else None

    def remember(self, lines: Mapping[str, str]) -> None:
        """Keep the answers to asks until something changes."""
        now = time.monotonic()
        # A run has none of its plan's answers: it has its lease only now.
        self._lines |= {f"{planning()} {key}": (now, line) for key, line in lines.items()}

    def take_expected(self) -> Iterable[Any]:
        """Return the asks of all steps, once a plan and once a run."""
        if planning() not in self._expecting:
            return ()
        self._expecting.discard(planning())
        return [ask for asks in self.expected for ask in asks()]

    def forget(self) -> None:
        """Have every fact read anew, also what is being read now."""
        self._lines.clear()
        self._answers.clear()
        self._served.clear()
        self.changes += 1

    def _changing(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call what may change the replica: what is read meanwhile serves no longer either."""
        self._change()
        try:
            return self._call(function, *arguments, **options)
        finally:
            self._change()

    def _change(self) -> None:
        for each in (self._spark, *target_of(self._spark).together):
            if isinstance(each.connector, SparkConnection):
                each.connector.forget()

    def _call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call a method of the connector; end the host's part of the run if the Spark is lost."""
        try:
            result = function(*arguments, **options)
        except Exception as error:
            # paramiko raises any error that ended its connection; pyinfra wraps some of them.
            if self._is_connected():
                raise
            raise lost_error(self._spark, str(error) or type(error).__name__) from None
        # A command that was running when the connection ended has no exit status.
        done = result[0] if isinstance(result, tuple) else result
        if not done and not self._is_connected():
            raise lost_error(self._spark, "")
        return result

    def _is_connected(self) -> bool:
        client = getattr(self._connector, "client", None)
        if client is None:
            # This machine itself.
            return True
        if transport := client.get_transport():
            # A waiting command notices the end before the transport counts as inactive.
            transport.join(_ENDING)
        return bool(transport and transport.is_active())


def _raw(command: Any) -> str:
    return command if isinstance(command, str) else str(command.get_raw_value())


def _key(command: Any, options: Any) -> str:
    # A run has none of its plan's answers: what is true for a moment is among them.
    return f"{planning()} {_raw(command)}\n{sorted(options.items(), key=str)}"
