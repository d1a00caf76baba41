"""How a run ends on Sparks that fail, cannot be reached, or drop out, and what it then prints."""

import logging
import shlex
from collections.abc import Collection, Iterable, Iterator
from importlib import import_module
from typing import Any

import click
import gevent
from pyinfra import config, host, logger, state
from pyinfra.api import Host, State
from pyinfra.api.exceptions import PyinfraError
from pyinfra.api.state import BaseStateCallback, StateStage

from sparkwright.common.command_line import typed_line
from sparkwright.common.operations import partners, spark_name, step_name
from sparkwright.run.ending import is_interrupted, watch_end
from sparkwright.run.spark import SparkTarget
from sparkwright.run.ssh import Login, cause
from sparkwright.run.upstream import carry

# Seconds in which a Spark takes a connection, greets, and takes a login, of a run that only looks;
# the doctor waits longer, for one that is ill.
LOOK_PATIENCE, DOCTOR_PATIENCE = 3, 10


def expect_failures(run: State) -> None:
    """End a run with a readable message once a host fails or cannot be reached.

    To be called while the inventory is loaded, when pyinfra takes no callbacks yet.
    """
    # With more, an operation whose facts failed goes on with their defaults, as if the host were
    # empty.
    config.FAIL_PERCENT = 0
    carry()
    watch_end()
    # Instead of pyinfra's question whether to go on, which needs a terminal.
    run.should_raise_failed_hosts = _stop
    logger.addHandler(_errors)
    click.get_current_context().call_on_close(lambda: _errors.explain(run))


def expect_silence(run: State, hosts: Iterable[tuple[str, dict[str, Any]]], look: str) -> None:
    """Have a run that only looks go on without the hosts that do not answer, and soon.

    `look` is the module of what the run does: its `without_answers` shows the fleet where no host
    can be reached.
    """

    def show() -> None:
        connecting = run.initialised and run.current_stage == StateStage.Connect
        if connecting and not (run.active_hosts or is_interrupted()):
            import_module(look).without_answers()

    logger.addHandler(_errors)
    click.get_current_context().call_on_close(show)
    run.should_raise_failed_hosts = lambda _: False
    config.CONNECT_TIMEOUT = patience = DOCTOR_PATIENCE if "doctor" in look else LOOK_PATIENCE
    for _, data in hosts:
        data["ssh_paramiko_connect_kwargs"] = {
            "banner_timeout": patience,
            "auth_timeout": patience,
        }
    carry()


def report_failures() -> None:
    """Have this run report each host that fails; further calls change nothing."""
    if _report not in state.callback_handlers:
        state.add_callback_handler(_report)


class _ConnectErrors(logging.Handler):
    """Keeps pyinfra's errors about hosts that it cannot reach, and explains them at the end."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._messages.append(click.unstyle(record.getMessage()))

    def error_of(self, spark: Host) -> str:
        """Return the first error about a host; "" without one."""
        prefix = click.unstyle(spark.print_prefix)
        own = (text.removeprefix(prefix) for text in self._messages if text.startswith(prefix))
        return next(own, "")

    def explain(self, run: State) -> None:
        """Explain why each host could not be reached, if that has ended the run."""
        if not run.initialised or run.current_stage != StateStage.Connect:
            return
        sparks = (each for each in run.inventory if run.is_host_in_limit(each))
        silent = {each: error for each in sparks if (error := self.error_of(each))}
        for spark, error in silent.items():
            _show(
                spark,
                f"{spark_name(spark)}: no connection: {cause(error, _login(spark))}",
                "Nothing was changed on any Spark.",
                *_once_reached(run, spark, silent),
            )


_errors = _ConnectErrors()


def why_silent(spark: Host) -> str:
    """Return why the run could not reach a host, for people."""
    error = _errors.error_of(spark)
    return cause(error, _login(spark)) if error else "no answer: is it on, and does ssh get to it?"


def _login(spark: Host) -> Login:
    data = spark.data.dict()
    return Login(
        data.get("ssh_hostname") or spark.name,
        data.get("ssh_user"),
        int(data.get("ssh_port") or 22),
        data.get("ssh_key"),
        data.get("ssh_known_hosts_file"),
    )


class LostError(gevent.GreenletExit):  # type: ignore[misc]
    """Ends the part that a lost Spark has in an operation.

    pyinfra and gevent take it for an orderly end, so the other Sparks finish the operation; then
    the run ends.
    """


def lost_error(spark: Host, error: str) -> BaseException:
    """Report a lost Spark once, by the connection's error; return what ends its part of the run."""
    run: State = spark.state
    # The current operation is that of `host`, which may have been reading its peer.
    now = host.current_op_hash or host.executing_op_hash
    step = step_name(now) if now else "the first look"
    found = f"{spark_name(spark)}: lost at: {step}: {cause(error)}"
    if run.current_stage != StateStage.Execute or now is None:
        # Before the execution this ends the run; status and drift go on with the other Sparks.
        return PyinfraError(found)
    if spark not in _report.lost:
        _report.lost.add(spark)
        left = _left(run, now)
        _show(
            spark,
            found,
            "Completed operations remain, and what runs on the Spark by itself (a download, a "
            "switch) continues there if it has power.",
            *([f"Not done on any Spark: {left}"] if left else []),
            *_once_reached(run, spark, _report.lost),
        )
    return LostError()


def _stop(run: State) -> bool:
    """End the run; called by pyinfra when hosts have failed, and others have not."""
    names = sorted(map(spark_name, run.failed_hosts))
    raise PyinfraError(f"the run ends here, because of {' and '.join(names)}: see above")


class FailureReport(BaseStateCallback):
    """Reports for each host what failed, what was not done, and how to continue.

    Attributes:
        lost: the Sparks that dropped out of the run.
    """

    def __init__(self) -> None:
        self.lost: set[Host] = set()
        self._said = False

    def operation_host_error(  # type: ignore[override]
        self, state: State, host: Host, op_hash: str, retry_count: int = 0, max_retries: int = 0
    ) -> None:
        """Report the failed operation; pyinfra has shown its output."""
        lines = [f"{spark_name(host)} failed at: {step_name(op_hash)}"]
        if not self._said:
            left = _left(state, op_hash)
            lines += [
                f"Not done on any Spark: {left}" if left else "Nothing was left to do.",
                "Completed operations remain. When the cause is fixed, continue with: "
                f"{typed_line()}",
            ]
        self._said = True
        if without := _without(state, host):
            pair = len(partners(host)) > 1
            what = f"replica {host.data.get('replica')}" if pair else "this Spark"
            lines.append(f"To go on without {what}: {without}")
        _show(host, *lines)

    def operation_end(self, state: State, op_hash: str) -> None:  # type: ignore[override]
        """End the run where a Spark was lost, now that the others have finished the operation."""
        state.fail_hosts(self.lost & state.active_hosts)


_report = FailureReport()


def _show(spark: Host, *lines: str) -> None:
    for line in lines:
        spark.log_styled(line, fg="yellow", log_func=logger.error)


def _left(run: State, op_hash: str) -> str:
    """Return the names of the operations after this one."""
    order = run.get_op_order()
    later = order[order.index(op_hash) + 1 :]
    return ", ".join(dict.fromkeys(map(step_name, later)))


def _once_reached(run: State, spark: Host, lost: Collection[Host]) -> Iterator[str]:
    """Yield the commands that continue a run with a Spark that is lost, and without it."""
    yield f"When {spark_name(spark)} can be reached again, continue with: {typed_line()}"
    if without := _without(run, spark):
        yield f"To go on without it: {without}"
    own, group = SparkTarget.of(spark.data.dict()), partners(spark)
    if len(group) > 1 and (offer := own.offer([spark_name(x) for x in group if x in lost])):
        yield offer


def _without(run: State, spark: Host) -> str:
    """Return the command that leaves out a Spark with its peer; "" where none would be left."""
    together = partners(spark)
    names = {each.name for each in together}
    others = {each.name for each in run.inventory if run.is_host_in_limit(each)} - names
    if not others or "--limit" in typed_line():
        return ""
    pattern = spark.data.get("replica") if len(together) > 1 else spark.name
    return f"{typed_line()} --exclude {shlex.quote(str(pattern))}"
