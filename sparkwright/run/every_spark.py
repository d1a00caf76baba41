"""The answers of all Sparks of a run, before it makes a file that an earlier one may have made."""

from contextlib import suppress
from typing import TypeVar

from pyinfra import state
from pyinfra.api import Host
from pyinfra.api.exceptions import PyinfraError

from sparkwright.common.operations import spark_name, uses_sudo
from sparkwright.common.part import Ask, Part
from sparkwright.declared.fleet.settings import settings_of
from sparkwright.run.answers import answers
from sparkwright.run.sudo import check_sudo

P = TypeVar("P", bound=Part)


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
