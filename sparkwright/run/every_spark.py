"""The answers of all Sparks of a run, before it makes a file that an earlier one may have made."""

from typing import TypeVar

from pyinfra import state
from pyinfra.api.exceptions import PyinfraError

from sparkwright.common.facts import HostFact
from sparkwright.common.operations import spark_name, uses_sudo
from sparkwright.declared.fleet.settings import settings_of
from sparkwright.plan.release.served import Served, parse_served, served_script
from sparkwright.run.sudo import check_sudo

T = TypeVar("T")


class ServedRelease(HostFact[Served]):
    """The release that a Spark serves, and what it was made of."""

    command = staticmethod(served_script)
    parse = staticmethod(parse_served)


def of_every_spark(fact: type[HostFact[T]]) -> dict[str, T]:
    """Read a fact of each host of the run, by its name.

    Raises:
        PyinfraError: A host cannot be read; nothing was changed.
    """
    found: dict[str, T] = {}
    for each in sorted(state.active_hosts, key=spark_name):
        if uses_sudo(each):
            check_sudo(each)
        answer = each.get_fact(fact, root=settings_of(each.data.dict()).root)
        if answer is None:
            raise PyinfraError(
                f"{spark_name(each)}: cannot be read, which comes before this run makes a file "
                "beside the inventory; nothing was changed"
            )
        found[spark_name(each)] = answer
    return found
