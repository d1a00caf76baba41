"""The model that a Spark is to serve, by its inventory and group data."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from deploys.plan.engine_log import at_level
from deploys.plan.fabric import FabricPlan, fabric_plan
from deploys.plan.lock import Lock
from deploys.plan.media import from_domains
from deploys.plan.recipe import Recipe
from deploys.plan.recipes import load_recipe
from deploys.plan.release import Ranks, Release, make_release


@cache
def recipe(name: str) -> Recipe:
    """Return a recipe by its name; a run asks for the same one many times.

    Raises:
        PlanError: As `load_recipe`.
    """
    return load_recipe(name)


def is_pair(data: Mapping[str, Any]) -> bool:
    """Tell whether a Spark serves one model together with another.

    Args:
        data: Inventory data of the Spark.
    """
    return len(data.get("ranks") or ()) == 2


def fabric_of(data: Mapping[str, Any]) -> FabricPlan | None:
    """Return a Spark's part of its pair's own network; None for a Spark on its own.

    Args:
        data: Inventory and group data of the Spark.

    Raises:
        PlanError: A setting of the group data cannot be.
    """
    if not is_pair(data):
        return None
    return fabric_plan(
        spark=data["spark"],
        ranks=data["ranks"],
        subnets=data["fabric_subnets"],
        mtu=data["fabric_mtu"],
        bandwidth_minimum=data["fabric_bandwidth_minimum"],
    )


def release_of(data: Mapping[str, Any], lock: Lock) -> Release:
    """Return the release that a Spark with a recipe is to serve.

    Args:
        data: Inventory and group data of the Spark.
        lock: What the names in its recipe stand for.

    Raises:
        PlanError: A setting of the group data cannot be, or the lock lacks a name.
    """
    fabric = fabric_of(data)
    pair = (fabric.addresses, fabric.peer_addresses) if fabric else ()
    served = at_level(recipe(data["recipe"]), data["log_level"])
    return make_release(
        from_domains(served, data["media_domains"]),
        lock,
        root=data["root"],
        ranks=Ranks(
            sparks=tuple(data["ranks"]),
            fabric=pair if data["rank"] == 0 else pair[::-1],
            rank=data["rank"],
        ),
    )
