"""What a Spark answers to the program that reads it; sudo must ask for no password there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeVar

from pyinfra import state
from pyinfra.api import FactBase, Host, State, StringCommand
from pyinfra.api.exceptions import FactProcessError, PyinfraError

from sparkwright.common.operations import spark_name, uses_sudo
from sparkwright.common.part import Ask, Part
from sparkwright.common.terminal import plain
from sparkwright.declared.fleet.settings import settings_of
from sparkwright.plan.release.programs import state_program
from sparkwright.run.lost import password_asked

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


def now(spark: Host, ask: Ask[P]) -> P:
    """Return a part as it is now, which may be asked while others wait for the lock."""
    return ask.value(answers(spark, ask)[0])


def of_every_spark(model: type[P]) -> dict[str, P]:
    """Read a part of each host of the run, by its name.

    Raises:
        PyinfraError: A host cannot be read; nothing was changed.
    """
    found = {}
    for each in sorted(state.active_hosts, key=spark_name):
        name = spark_name(each)
        if uses_sudo(each):
            check_sudo(each)
        with suppress(PyinfraError):
            found[name] = now(each, model.ask(root=settings_of(each.data.dict()).root))
        if name not in found:
            raise PyinfraError(
                f"{name}: cannot be read, which comes before this run makes a file beside the "
                "inventory; nothing was changed"
            )
    return found


def check_sudo(spark: Host) -> None:
    """Refuse a password: pyinfra would pass it on in an environment that the host's users see.

    Raises:
        PyinfraError: Sudo asks for one, or is missing.
    """
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
