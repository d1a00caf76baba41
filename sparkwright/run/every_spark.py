"""The answers of all Sparks of a run, before it makes a file that an earlier one may have made."""

from contextlib import suppress
from typing import Any, TypeVar

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


def of_every_spark(model: Any) -> dict[str, Any]:
    """Read a part of each host of the run, by its name; until all are parts, also a fact.

    Raises:
        PyinfraError: A host cannot be read; nothing was changed.
    """
    found = {}
    for each in sorted(state.active_hosts, key=spark_name):
        if uses_sudo(each):
            check_sudo(each)
        root = settings_of(each.data.dict()).root
        answer = None
        with suppress(PyinfraError):
            is_part = issubclass(model, Part)
            answer = now(each, model.ask(root=root)) if is_part else each.get_fact(model, root=root)
        if answer is None:
            raise PyinfraError(
                f"{spark_name(each)}: cannot be read, which comes before this run makes a file "
                "beside the inventory; nothing was changed"
            )
        found[spark_name(each)] = answer
    return found
