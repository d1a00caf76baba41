"""What a Spark is, read by one program in one command (files/host/state), and its connection.

A run says beforehand what its steps will read (`expect`), so that the first of them reads it all.
An answer serves as long as nothing has changed: the first other command on a Spark of the replica
ends that, and so does a minute.
The connection of a run keeps what was read, and notices a lost Spark.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from gevent.lock import RLock
from pyinfra import state
from pyinfra.api import FactBase, Host, State, StringCommand
from pyinfra.api.exceptions import FactProcessError, PyinfraError
from pyinfra.connectors.util import CommandOutput

from sparkwright.common.operations import partners, planning, spark_name, uses_sudo
from sparkwright.common.part import Ask, P, Part
from sparkwright.common.terminal import plain
from sparkwright.declared.fleet.settings import settings_of
from sparkwright.plan.release.programs import state_program
from sparkwright.run.failures import lost_error
from sparkwright.run.ssh import password_asked

# Runs the program in the first line of its standard input, which reads its request from the second.
RUN = (
    "python3 -I -B -c 'import base64, sys, zlib; "
    "exec(zlib.decompress(base64.b64decode(sys.stdin.buffer.readline())))'"
)
# Characters of the message about an answer that is no good.
_MESSAGE = 500
# Seconds for which an answer serves: an operation may wait for one that takes hours elsewhere.
FRESH = 60
# Seconds that a connection may take to end after a command has noticed it: each failed command
# waits for so long.
_ENDING = 0.2


class SparkState(FactBase[list[str]]):
    """Parts of what a host is: the first that is asked for is proved good, the others are read."""

    def command(self, asks: Sequence[Ask[Any]]) -> StringCommand:
        self._asks = asks
        return StringCommand(RUN)

    def process(self, output: list[str]) -> list[str]:
        """Return a line of JSON for each part."""
        try:
            if len(output) != len(self._asks):
                raise ValueError(f"found {len(output)} parts; expected {len(self._asks)}")
            self._asks[0].value(output[0])
        except ValueError as error:
            raise FactProcessError(plain(str(error), _MESSAGE)) from None
        return output

    def check_preconditions(self, state: State, host: Host) -> None:
        """Say to the connection of a run (`SparkConnection`) that this command changes nothing."""
        host.connector.is_read = True  # type: ignore[attr-defined]


def expect(spark: Host, asks: Callable[[], Iterable[Ask[Any]]]) -> None:
    """Have the first reading of a Spark, in a plan and in a run, read this as well."""
    connection_of(spark).expected.append(asks)


def read(spark: Host, ask: Ask[P]) -> P:
    """Return a part of a Spark, read since the last change of its replica.

    One that cannot be read has failed, and is a PyinfraError; so it is in the functions below.
    """
    connection = connection_of(spark)
    # One reading at a time: the second has the answers of the first.
    with connection.reading:
        if line := connection.known(ask.key):
            with suppress(ValueError):
                return connection.value(ask, line)
        return read_now(spark, ask, *connection.take_expected())


def read_now(spark: Host, ask: Ask[P], *others: Ask[Any]) -> P:
    """Return a part of a Spark that may be another in a moment, such as the progress of a job.

    What `others` ask for is read with it, and kept.
    """
    asks = list({each.key: each for each in (ask, *others)}.values())
    connection = connection_of(spark)
    changes = connection.changes
    lines = answers(spark, *asks)
    if changes == connection.changes:
        connection.remember({each.key: line for each, line in zip(asks, lines, strict=True)})
    return ask.value(lines[0])


def read_all(model: type[P]) -> dict[str, P]:
    """Read a part of each host of the run, by its name, also before its own deploy has begun."""
    found = {}
    for each in sorted(state.active_hosts, key=spark_name):
        name = spark_name(each)
        if uses_sudo(each):
            check_sudo(each)
        try:
            found[name] = read_now(each, model.ask(root=settings_of(each.data.dict()).root))
        except PyinfraError:
            raise PyinfraError(
                f"{name}: cannot be read, which comes before this run makes a file beside the "
                "inventory; nothing was changed"
            ) from None
    return found


def answers(spark: Host, *asks: Ask[Any], **how: Any) -> list[str]:
    """Return a line of JSON for each ask, as the Spark answers now.

    Args:
        how: pyinfra's arguments of a fact, such as `_timeout`.
    """
    program = state_program(frozenset(each.model.part for each in asks))
    request = f"[{', '.join(each.key for each in asks)}]"
    if lines := spark.get_fact(SparkState, asks=asks, _stdin=[program, request], **how):
        return lines
    raise PyinfraError(f"{spark_name(spark)} could not be read: {asks[0]}")


def check_sudo(spark: Host) -> None:
    """Refuse a password: pyinfra would pass it on in an environment that the host's users see."""
    # pyinfra reads sudo's complaint, and would ask for the password.
    answered, _ = spark.run_shell_command(StringCommand("sudo -n true 2>/dev/null"))
    if answered:
        return
    name = spark_name(spark)
    there, _ = spark.run_shell_command(StringCommand("command -v sudo >/dev/null"))
    if not there:
        remedy = "On the Spark, as root: apt-get install sudo"
        raise PyinfraError(f"{name}: found no sudo; expected it. {remedy}")
    raise PyinfraError(password_asked(name, spark.data.dict().get("ssh_user")))


def connection_of(spark: Host) -> SparkConnection:
    """Return the connection to a Spark; from the first call on, pyinfra uses it as well."""
    # pyinfra's `host` stands for whichever host is current.
    known: Host = spark.inventory.get_host(spark.name)
    if not isinstance(known.connector, SparkConnection):
        known.connector = SparkConnection(known, known.connector)  # type: ignore[assignment]
    return known.connector  # type: ignore[return-value]


class SparkConnection:
    """A pyinfra connector that keeps what was read, and tells a lost Spark from a failure.

    pyinfra knows only failed commands: a power cut during an operation would show as a failure of
    whatever command or upload was running, with tracebacks.

    Attributes:
        is_read: The next command only reads.
        reading: Held by who reads what may be known already.
        expected: What the steps of the run will ask for.
        changes: How many commands may have changed the replica.
    """

    def __init__(self, spark: Host, connector: Any) -> None:
        self.is_read = False
        self.reading = RLock()
        self.expected: list[Callable[[], Iterable[Ask[Any]]]] = []
        self.changes = 0
        # Whether a plan, and a run, have yet to take what is expected.
        self._expecting = {True, False}
        # By key: when it was read, and the line that a Spark has answered.
        self._lines: dict[str, tuple[float, str]] = {}
        # By key: the line that was read last, and the part in it.
        self._parts: dict[str, tuple[str, Part]] = {}
        self._spark = spark
        self._connector = connector

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._connector, name)
        return partial(self._call, attribute) if name == "get_file" else attribute

    def run_shell_command(self, command: Any, **options: Any) -> tuple[bool, CommandOutput]:
        """Run a command; unless it only reads, or belongs to a plan, it may change the replica."""
        call = self._call if self.is_read or planning() else self._changing
        self.is_read = False
        run: Any = self._connector.run_shell_command
        return call(run, command, **options)  # type: ignore[no-any-return]

    def put_file(self, *arguments: Any, **options: Any) -> bool:
        """Upload a file."""
        return bool(self._changing(self._connector.put_file, *arguments, **options))

    def known(self, key: str) -> str | None:
        """Return what a Spark has answered to an ask, unless that may have changed since."""
        taken, line = self._lines.get(f"{planning()} {key}", (0.0, ""))
        return line if line and time.monotonic() - taken < FRESH else None

    def remember(self, lines: Mapping[str, str]) -> None:
        """Keep the answers to asks until something changes."""
        now = time.monotonic()
        # A run has none of its plan's answers: it has its lease only now.
        self._lines |= {f"{planning()} {key}": (now, line) for key, line in lines.items()}

    def value(self, ask: Ask[P], line: str) -> P:
        """Return the part in a line, which is read once: most lines of a run are its plan's."""
        if ask.key not in self._parts or self._parts[ask.key][0] != line:
            self._parts[ask.key] = line, ask.value(line)
        return self._parts[ask.key][1]  # type: ignore[return-value]

    def take_expected(self) -> Iterable[Ask[Any]]:
        """Return the asks of all steps, once a plan and once a run."""
        # Another Spark of a group may read this one before its own steps have said anything.
        if not self.expected or planning() not in self._expecting:
            return ()
        self._expecting.discard(planning())
        return [ask for asks in self.expected for ask in asks()]

    def _changing(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call what may change the replica: what is read meanwhile serves no longer either."""
        self._change()
        try:
            return self._call(function, *arguments, **options)
        finally:
            self._change()

    def _change(self) -> None:
        for each in (self._spark, *partners(self._spark)):
            if isinstance(each.connector, SparkConnection):
                each.connector.forget()

    def forget(self) -> None:
        """Have everything read anew, also what is being read now."""
        self._lines.clear()
        self.changes += 1

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
