"""The end of a run on Sparks that fail, cannot be reached, or drop out, and what is said of it."""

import logging
import shlex
import sys
from typing import Any

import click
import gevent
from pyinfra import host, logger, state
from pyinfra.api import Host, State
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.state import BaseStateCallback, StateStage

from sparkwright.common.operations import spark_name
from sparkwright.run.lost import cause, lost_lines, unreachable_lines
from sparkwright.run.target import target_of

# Seconds that the end of a connection may take after a command has noticed it: each command that
# fails waits for so long.
_ENDING = 0.2


def expect_failures(run: State) -> None:
    """Have a run end by words for people where hosts cannot be reached, or fail.

    To be called while the inventory is loaded: pyinfra then knows no hosts yet, and takes no
    callbacks.

    Args:
        run: the run.
    """
    # In place of pyinfra's question whether to go on, which nobody answers where there is no
    # terminal; and going on means with default facts, as if nothing were there.
    run.should_raise_failed_hosts = _stop
    # paramiko writes tracebacks of what it raises as well.
    logging.getLogger("paramiko").addHandler(logging.NullHandler())
    errors = _ConnectErrors()
    logger.addHandler(errors)
    click.get_current_context().call_on_close(lambda: errors.explain(run))


def report_failures() -> None:
    """Have the run tell of each host that fails; once a run."""
    if any(isinstance(handler, FailureReport) for handler in state.callback_handlers):
        return
    state.add_callback_handler(FailureReport())
    # gevent prints a traceback for what ends a host's part of an operation, before pyinfra says it.
    hub = gevent.get_hub()
    hub.NOT_ERROR = (*hub.NOT_ERROR, PyinfraError)


def watch_connection() -> None:
    """Have the run notice when the current host is lost; one without SSH cannot be."""
    # Not `host`, which stands for whichever host is the current one.
    own = state.inventory.get_host(host.name)
    if getattr(own.connector, "client", None) and not isinstance(own.connector, WatchedConnection):
        own.connector = WatchedConnection(own, own.connector)  # type: ignore[assignment]


class _ConnectErrors(logging.Handler):
    """Keeps what pyinfra says of hosts that it does not get to, and says what that means."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append(click.unstyle(record.getMessage()))

    def explain(self, run: State) -> None:
        """Tell of each host that could not be reached, if that has ended the run."""
        if not run.initialised or run.current_stage != StateStage.Connect:
            return
        for spark in (each for each in run.inventory if run.is_host_in_limit(each)):
            prefix = click.unstyle(spark.print_prefix)
            said = [line.removeprefix(prefix) for line in self._said if line.startswith(prefix)]
            if said:
                _tell(spark, unreachable_lines(spark_name(spark), said[0], *_ways_on(run, spark)))


class LostError(gevent.GreenletExit):  # type: ignore[misc]
    """A Spark is lost: its part of an operation ends here, and only that.

    pyinfra and gevent take it for an orderly end, so that the other Sparks finish the operation;
    after it, the run ends.
    """


class WatchedConnection:
    """A connector of pyinfra's that tells a lost Spark from a command that fails.

    pyinfra knows only commands that fail: a Spark without power in mid-operation would end in the
    failure of whatever read or wrote there, and in tracebacks.

    Args:
        spark: the host.
        connector: its own, by SSH.
    """

    def __init__(self, spark: Host, connector: Any) -> None:
        self._spark = spark
        self._connector = connector

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connector, name)

    def run_shell_command(self, *words: Any, **options: Any) -> Any:
        """Run a command; end the host's part of the run where its Spark is lost."""
        return self._call(self._connector.run_shell_command, words, options)

    def put_file(self, *words: Any, **options: Any) -> Any:
        """Upload a file, as `run_shell_command` runs a command."""
        return self._call(self._connector.put_file, words, options)

    def get_file(self, *words: Any, **options: Any) -> Any:
        """Download a file, as `run_shell_command` runs a command."""
        return self._call(self._connector.get_file, words, options)

    def _call(self, function: Any, words: Any, options: Any) -> Any:
        try:
            result = function(*words, **options)
        except Exception as error:
            # Paramiko hands on whatever has ended its connection, pyinfra puts that into its own.
            if self._is_connected():
                raise
            raise _lost(self._spark, str(error) or type(error).__name__) from None
        # A command that was under way when the connection ended has just no exit status.
        done = result[0] if isinstance(result, tuple) else result
        if not done and not self._is_connected():
            raise _lost(self._spark, "")
        return result

    def _is_connected(self) -> bool:
        client = self._connector.client
        transport = client.get_transport() if client else None
        if transport:
            # Whatever waits for an answer notices the end before the connection counts as ended.
            transport.join(_ENDING)
        return bool(transport and transport.is_active())


def _lost(spark: Host, error: str) -> BaseException:
    """Tell that a Spark is lost, once; return what ends its part of the run."""
    run: State = spark.state
    # Of the host whose operation this is: it may have looked at the other one of its pair.
    now = host.current_op_hash or host.executing_op_hash
    step = _name(run, now) if now else "the first look"
    if run.current_stage != StateStage.Execute or now is None:
        # The run ends with this one; a look at many Sparks goes on with the others.
        return PyinfraError(f"{spark_name(spark)}: lost at: {step}: {cause(error)}")
    lost = next(each for each in run.callback_handlers if isinstance(each, FailureReport)).lost
    if spark not in lost:
        lost.add(spark)
        lines = lost_lines(spark_name(spark), step, error, _left(run, now), *_ways_on(run, spark))
        _tell(spark, lines)
    # With --serial there is no greenlet of the host's own that could end.
    own = isinstance(gevent.getcurrent(), gevent.Greenlet)
    return LostError() if own else PyinfraError(f"{spark_name(spark)}: lost at: {step}")


def _stop(run: State) -> bool:
    """End the run; called by pyinfra when hosts have failed, and others have not."""
    names = sorted(map(spark_name, run.failed_hosts))
    raise PyinfraError(f"the run ends here, because of {' and '.join(names)}: see above")


class FailureReport(BaseStateCallback):
    """Says for each host what failed, what is left to do, and how to continue.

    Attributes:
        lost: the Sparks that dropped out of the run.
    """

    def __init__(self) -> None:
        self.lost: set[Host] = set()

    @staticmethod
    def operation_host_error(
        state: State, host: Host, op_hash: str, retry_count: int = 0, max_retries: int = 0
    ) -> None:
        """Tell what has failed; pyinfra has shown its output."""
        left = _left(state, op_hash)
        command, without = _ways_on(state, host)
        _tell(
            host,
            [
                f"{spark_name(host)} failed at: {_name(state, op_hash)}",
                f"Not done on any Spark: {left}" if left else "Nothing was left to do.",
                f"Completed operations remain. When the cause is fixed, continue with: {command}",
                *([f"To go on without {_left_out(host)}: {without}"] if without else []),
            ],
        )

    def operation_end(self, state: State, op_hash: str) -> None:  # type: ignore[override]
        """End the run where a Spark was lost, now that the others have finished the operation."""
        state.fail_hosts(self.lost & state.active_hosts)


def _tell(spark: Host, lines: list[str]) -> None:
    for line in lines:
        spark.log_styled(line, fg="yellow", log_func=logger.error)


def _left(run: State, op_hash: str) -> str:
    """Return the names of the operations after this one."""
    order = run.get_op_order()
    later = order[order.index(op_hash) + 1 :]
    return ", ".join(dict.fromkeys(_name(run, each) for each in later))


def _ways_on(run: State, spark: Host) -> tuple[str, str]:
    """Return the command that continues, and the one that does so without a Spark, or ""."""
    command = f"pyinfra {' '.join(map(shlex.quote, sys.argv[1:]))}"
    together = {each.name for each in target_of(spark).together}
    others = {each.name for each in run.inventory if run.is_host_in_limit(each)} - together
    if not others or "--limit" in command:
        return command, ""
    own = target_of(spark)
    pattern = own.replica if own.is_pair and own.replica else spark.name
    return command, f"{command} --exclude {shlex.quote(pattern)}"


def _left_out(spark: Host) -> str:
    return f"replica {target_of(spark).replica}" if target_of(spark).is_pair else "this Spark"


def _name(state: State, op_hash: Any) -> str:
    return ", ".join(sorted(state.get_op_meta(op_hash).names))
