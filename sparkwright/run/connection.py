"""The connection to a Spark of a run: it keeps what was read there, and notices a lost Spark."""

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from gevent.lock import RLock
from pyinfra import host, state
from pyinfra.api import Host
from pyinfra.connectors.util import CommandOutput

from sparkwright.common.operations import planning
from sparkwright.common.part import Ask
from sparkwright.run.failures import lost_error
from sparkwright.run.target import target_of

# Seconds for which an answer serves: an operation may wait for one that takes hours elsewhere.
FRESH = 60
# Seconds that a connection may take to end after a command has noticed it: each failed command
# waits for so long.
_ENDING = 0.2


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
    """A pyinfra connector that keeps what was read, and tells a lost Spark from a failure.

    pyinfra knows only failed commands: a power cut during an operation would show as a failure of
    whatever command or upload was running, with tracebacks.

    Attributes:
        is_read: The next command only reads.
        reading: One reading at a time: the second has the answers of the first.
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
        self._spark = spark
        self._connector = connector

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._connector, name)
        return partial(self._call, attribute) if name == "get_file" else attribute

    def run_shell_command(self, command: Any, **options: Any) -> tuple[bool, CommandOutput]:
        """Run a command; unless it only reads, or belongs to a plan, it may change the replica."""
        call = self._call if self.is_read or planning() else self._changing
        self.is_read = False
        result: tuple[bool, CommandOutput] = call(
            self._connector.run_shell_command, command, **options
        )
        return result

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

    def take_expected(self) -> Iterable[Ask[Any]]:
        """Return the asks of all steps, once a plan and once a run."""
        # The other Spark of a pair may read this one before its own steps have said anything.
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
        for each in (self._spark, *target_of(self._spark).together):
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
