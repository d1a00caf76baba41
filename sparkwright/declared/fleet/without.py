"""A fleet without some Sparks of its groups, which serve on those that are left."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from sparkwright.common.errors import PlanError
from sparkwright.common.schema import nearest
from sparkwright.declared.fleet.fleet import Fleet


def without(fleet: Fleet, lost: Collection[str], counts: Mapping[str, Sequence[int]]) -> Fleet:
    """Return a fleet without some Sparks, nor what they alone serve; others may be left idle.

    Args:
        counts: the numbers of Sparks that each recipe is made for.

    Raises:
        PlanError: one of them is no Spark of a group, or too few are left.
    """
    groups = (each.sparks for each in fleet.replicas.values() if len(each.sparks) > 1)
    members = [spark for group in groups for spark in group]
    for spark in (each for each in lost if each not in members):
        why = f"of a group, as --exclude leaves out others; {nearest(spark, members)}"
        raise PlanError(f"--data without: found {spark}; expected a Spark {why}")
    replicas = {}
    for name, each in fleet.replicas.items():
        # Groups on the same Sparks stay so: a seat has the same name on all of its Sparks.
        alike = (one for one in fleet.replicas.values() if one.sparks == each.sparks)
        made_for = sorted(set.intersection(*({*counts[one.recipe]} for one in alike)))
        left = [spark for spark in each.sparks if spark not in lost]
        if len(left) < len(each.sparks):
            left = left[: max((number for number in made_for if number <= len(left)), default=0)]
        if not left and len(each.sparks) > 1:
            few = len({*each.sparks} - {*lost})
            raise PlanError(
                f"--data without: found {few} of the {len(each.sparks)} Sparks of {name} left; "
                f"expected {' or '.join(map(str, made_for))}, as its recipe says: "
                f"--exclude {name}, or name another recipe in the inventory"
            )
        if left:
            replicas[name] = each.model_copy(update={"sparks": left})
    sparks = {name: each for name, each in fleet.sparks.items() if name not in lost}
    whole = {name: each.sparks for name, each in fleet.replicas.items() if {*each.sparks} & {*lost}}
    gateway = None if fleet.gateway and fleet.gateway.spark in lost else fleet.gateway
    return replace(fleet, sparks=sparks, replicas=replicas, gateway=gateway, whole=whole)
