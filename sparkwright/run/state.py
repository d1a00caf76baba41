"""What a Spark is, read by one program in one command: files/host/state.

A run says beforehand what its steps will read (`expect`), so that the first of them reads it all.
An answer serves as long as nothing has changed: the first other command on a Spark of the replica
ends that, and so does a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from pyinfra.api import FactBase, Host, State, StringCommand
from pyinfra.api.exceptions import FactProcessError, PyinfraError

from sparkwright.common.operations import spark_name
from sparkwright.common.part import Ask, Part
from sparkwright.common.terminal import plain
from sparkwright.plan.release.programs import state_program
from sparkwright.run.connection import connection_of

P = TypeVar("P", bound=Part)

# Runs the program in the first line of its standard input, which reads its request from the second.
RUN = (
    "python3 -I -B -c 'import base64, sys, zlib; "
    "exec(zlib.decompress(base64.b64decode(sys.stdin.buffer.readline())))'"
)
# Characters of the message about an answer that is no good.
_MESSAGE = 500


class SparkState(FactBase[list[str]]):
    """Parts of what a host is: the first that is asked for is proved good, the others are read."""

    def command(self, asks: Sequence[Ask[Any]]) -> StringCommand:
        self._asks = asks
        return StringCommand(RUN)

    def process(self, output: list[str]) -> list[str]:
        """Return a line of JSON for each part.

        Raises:
            FactProcessError: There are more or fewer lines, or the first part is no good.
        """
        try:
            if len(output) != len(self._asks):
                raise ValueError(f"found {len(output)} parts; expected {len(self._asks)}")
            self._asks[0].value(output[0])
        except ValueError as error:
            raise FactProcessError(plain(str(error), _MESSAGE)) from None
        return output

    def check_preconditions(self, state: State, host: Host) -> None:
        """Say to the connection that the next command changes nothing."""
        connection_of(host).is_read = True


def expect(spark: Host, asks: Callable[[], Iterable[Ask[Any]]]) -> None:
    """Have the first reading of a Spark, in a plan and in a run, read this as well."""
    connection_of(spark).expected.append(asks)


def read(spark: Host, ask: Ask[P]) -> P:
    """Return a part of a Spark, read since the last change of its replica.

    Raises:
        PyinfraError: It could not be read; the Spark has failed.
    """
    connection = connection_of(spark)
    with connection.reading:
        if line := connection.known(ask.key):
            with suppress(ValueError):
                return ask.value(line)
        others = {each.key: each for each in connection.take_expected() if each.key != ask.key}
        return _read(spark, ask, *others.values())


def read_now(spark: Host, ask: Ask[P]) -> P:
    """Return a part of a Spark that may be another in a moment, such as the progress of a job.

    Raises:
        PyinfraError: It could not be read; the Spark has failed.
    """
    with connection_of(spark).reading:
        return _read(spark, ask)


def _read(spark: Host, ask: Ask[P], *others: Ask[Any]) -> P:
    asks = [ask, *others]
    program = state_program(frozenset(each.model.part for each in asks))
    request = f"[{', '.join(each.key for each in asks)}]"
    connection = connection_of(spark)
    changes = connection.changes
    lines = spark.get_fact(SparkState, asks=asks, _stdin=[program, request])
    if not lines:
        raise PyinfraError(f"{spark_name(spark)} could not be read: {ask}")
    if changes == connection.changes:
        connection.remember({each.key: line for each, line in zip(asks, lines, strict=True)})
    return ask.value(lines[0])
