"""The program that reads a Spark, as a fact of pyinfra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyinfra.api import FactBase, Host, State, StringCommand
from pyinfra.api.exceptions import FactProcessError, PyinfraError

from sparkwright.common.operations import spark_name
from sparkwright.common.part import Ask
from sparkwright.common.terminal import plain
from sparkwright.plan.release.programs import state_program

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
        """Say to the connection of a run (`SparkConnection`) that this command changes nothing."""
        host.connector.is_read = True  # type: ignore[attr-defined]


def answers(spark: Host, *asks: Ask[Any], **how: Any) -> list[str]:
    """Return a line of JSON for each ask, as the Spark answers now.

    Args:
        how: pyinfra's arguments of a fact, such as `_timeout`.

    Raises:
        PyinfraError: It could not be read; the Spark has failed.
    """
    program = state_program(frozenset(each.model.part for each in asks))
    request = f"[{', '.join(each.key for each in asks)}]"
    if lines := spark.get_fact(SparkState, asks=asks, _stdin=[program, request], **how):
        return lines
    raise PyinfraError(f"{spark_name(spark)} could not be read: {asks[0]}")
